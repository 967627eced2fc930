"""Adam: steps along noisy gradients, each parameter in units of what its gradient has been.

References
----------
Kingma, Ba 2015, algorithm 1.
"""

from typing import NamedTuple

import numpy as np

TINY = np.finfo(np.float64).tiny


class AdamMemory(NamedTuple):
    """The running means of the gradient and of its square, (P,) each, and the steps so far."""

    n_steps: int
    mean: np.ndarray
    square: np.ndarray


def no_steps(n_params):
    """Return the memory before the first gradient."""
    still = np.zeros(n_params)
    return AdamMemory(0, still, still)


def adam_step(memory, gradient, mean_weight=0.1, square_weight=0.05):
    """Return the memory after another gradient, and the direction that it implies, (P,) each.

    The weights are those of this gradient, and of its square, in the running means.
    """
    mean = memory.mean + mean_weight * (gradient - memory.mean)
    square = memory.square + square_weight * (gradient**2 - memory.square)
    n_steps = memory.n_steps + 1
    # The running means began at zero: these are the weights of all gradients so far in them.
    total_in_mean = 1.0 - (1.0 - mean_weight) ** n_steps
    total_in_square = 1.0 - (1.0 - square_weight) ** n_steps
    direction = (mean / total_in_mean) / np.sqrt(square / total_in_square + TINY)
    return AdamMemory(n_steps, mean, square), direction
