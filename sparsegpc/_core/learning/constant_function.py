"""Comparison of a fit with the best constant function."""


def trivial_gain(total_weight, per_row=1e-3):
    """Return the gain over a constant function, in nats, that is too small to count.

    It is `per_row` nats for each row, and at most one nat in total.
    """
    return min(1.0, per_row * total_weight)


def floor(model):
    """Return the bound, in nats, that a model must exceed to be better than a constant function."""
    return model.constant_bound() + trivial_gain(model.total_weight)


def is_worse_than_constant(model, found):
    """Return whether `found`, a `LocalFit`, is None or worse than the best constant function."""
    return found is None or not found.best.objective >= model.constant_bound()
