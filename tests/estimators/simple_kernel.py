"""A kernel for tests that are not about the default one."""

# One length scale for all columns, and no comparison of kernels: the quickest to learn.
SIMPLE = {"length_scales": "common", "main_effects": False}


def simple_kernel(parameters):
    """Return parameters of an estimator, with those of a simple kernel if they give none."""
    return parameters if parameters.get("kernel") is not None else {**SIMPLE, **parameters}
