"""What a model must gain over a constant function to be one."""

# A gain over a constant function of less than this many nats per row, or 1 in all, is none.
TRIVIAL_GAIN = 1e-3


def trivial_gain(total_weight):
    """Return the gain in nats, for rows of this total weight, up to which it is none."""
    return min(1.0, TRIVIAL_GAIN * total_weight)


def floor(model):
    """Return the bound up to which a model is no better than a constant function."""
    return model.constant_bound() + trivial_gain(model.total_weight)


def is_worse_than_constant(model, climb):
    """Return whether a climb, None if there was none, ended below the best constant function."""
    return climb is None or not climb.best.bound >= model.constant_bound()
