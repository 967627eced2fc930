"""What a model must gain over a constant function to be one."""


def trivial_gain(total_weight, per_row=1e-3):
    """Return the gain in nats up to which nothing was learned: `per_row`, or 1 in all."""
    return min(1.0, per_row * total_weight)


def floor(model):
    """Return the bound up to which a model is no better than a constant function."""
    return model.constant_bound() + trivial_gain(model.total_weight)


def is_worse_than_constant(model, found):
    """Return whether a `LocalFit`, or None, is below the best constant function."""
    return found is None or not found.best.objective >= model.constant_bound()
