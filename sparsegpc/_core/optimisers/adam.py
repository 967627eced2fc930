"""Adam: steps along noisy gradients, scaled by the recent size of the gradient of each parameter.

References
----------
Kingma, Ba 2015, algorithm 1.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.numerics.floats import TINY


class AdamMemory(NamedTuple):
    """The number of steps, and running means of the gradient and its square, shape (P,) each."""

    n_steps: int
    mean: np.ndarray
    square: np.ndarray


def no_steps(n_params):
    """Return the `AdamMemory` before the first gradient."""
    zeros = np.zeros(n_params)
    return AdamMemory(0, zeros, zeros)


def adam_step(memory, gradient, mean_weight=0.1, square_weight=0.05):
    """Return the `AdamMemory` after another gradient, and the direction of the step, shape (P,).

    `mean_weight` and `square_weight` are the weights of the new gradient and of its square in the
    running means.
    """
    mean = memory.mean + mean_weight * (gradient - memory.mean)
    square = memory.square + square_weight * (gradient**2 - memory.square)
    n_steps = memory.n_steps + 1
    # The running means start at zero, so the weights of the gradients in them sum to less than 1.
    total_in_mean = 1.0 - (1.0 - mean_weight) ** n_steps
    total_in_square = 1.0 - (1.0 - square_weight) ** n_steps
    direction = (mean / total_in_mean) / np.sqrt(square / total_in_square + TINY)
    return AdamMemory(n_steps, mean, square), direction
