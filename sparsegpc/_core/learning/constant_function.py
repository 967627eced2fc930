"""Comparison of a fit with the best constant function."""

# Gains over a constant function that do not count, in nats per row and in total.
TRIVIAL_PER_ROW, TRIVIAL_IN_TOTAL = 1e-3, 1.0


def trivial_gain(total_weight):
    """Return the gain over a constant function, in nats, that is too small to count."""
    return min(TRIVIAL_IN_TOTAL, TRIVIAL_PER_ROW * total_weight)


def floor(model):
    """Return the bound, in nats, that a model must exceed to be better than a constant function."""
    return model.constant_bound() + trivial_gain(model.total_weight)


def is_worse_than_constant(model, found):
    """Return whether `found`, a `FitResult`, is None or worse than the best constant function."""
    return found is None or not found.best.objective >= model.constant_bound()
