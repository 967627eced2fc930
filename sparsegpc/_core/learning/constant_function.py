"""What a model must gain over a constant function to be one."""

# A model has learned nothing if it gains less than this many nats per row, or 1 in all.
TRIVIAL_GAIN = 1e-3


def trivial_gain(total_weight):
    """Return the gain in nats, for rows of this total weight, that counts as nothing learned."""
    return min(1.0, TRIVIAL_GAIN * total_weight)


def floor(model):
    """Return the bound up to which a model is no better than a constant function."""
    return model.constant_bound() + trivial_gain(model.total_weight)


def is_worse_than_constant(model, found):
    """Return whether a `LocalFit`, or None, is below the best constant function."""
    return found is None or not found.best.objective >= model.constant_bound()
