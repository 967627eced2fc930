"""Adam: steps along noisy gradients, each parameter in units of what its gradient has been.

References
----------
Kingma, Ba 2015, algorithm 1.
"""

from typing import NamedTuple

import numpy as np

# Weights of the last step in the running means of the gradient and of its square.
MEAN_WEIGHT, SQUARE_WEIGHT = 0.1, 0.05
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


def adam_step(memory, gradient):
    """Return the memory after another gradient, and the direction that it implies, (P,) each."""
    mean = memory.mean + MEAN_WEIGHT * (gradient - memory.mean)
    square = memory.square + SQUARE_WEIGHT * (gradient**2 - memory.square)
    n_steps = memory.n_steps + 1
    # The running means began at zero; these are the weights of what they have seen.
    seen_by_mean = 1.0 - (1.0 - MEAN_WEIGHT) ** n_steps
    seen_by_square = 1.0 - (1.0 - SQUARE_WEIGHT) ** n_steps
    direction = (mean / seen_by_mean) / np.sqrt(square / seen_by_square + TINY)
    return AdamMemory(n_steps, mean, square), direction
