"""Adam: steps along noisy gradients, scaled by the recent size of the gradient of each parameter.

The learning rate, by which the caller multiplies them, decreases.

References
----------
Kingma, Ba 2015, algorithm 1.
"""

from typing import NamedTuple

import numpy as np

# Weights of the last mean of the gradient and of its square in the next ones, and the least size of
# a gradient, in nats per row: a parameter without effect must not follow rounding errors.
BETA_1, BETA_2, EPSILON = 0.9, 0.95, 1e-10
# The squares of larger gradients would overflow; all that counts is their sign.
LARGEST_GRADIENT = 1e150
# Steps after which the rate of a stream is half of the first.
HALF_TIME = 20


class AdamState(NamedTuple):
    """The number of steps, and running means of the gradient and its square, shape (P,) each."""

    n_steps: int
    mean: np.ndarray
    square: np.ndarray


def no_steps(n_params):
    """Return the `AdamState` before the first gradient."""
    zeros = np.zeros(n_params)
    return AdamState(0, zeros, zeros)


def adam_step(state, gradient):
    """Return the `AdamState` after another gradient, and the direction of the step, shape (P,)."""
    gradient = np.clip(gradient, -LARGEST_GRADIENT, LARGEST_GRADIENT)
    mean = BETA_1 * state.mean + (1.0 - BETA_1) * gradient
    square = BETA_2 * state.square + (1.0 - BETA_2) * gradient**2
    n_steps = state.n_steps + 1
    # The running means start at zero, so the weights of the gradients in them sum to less than 1.
    total_in_mean, total_in_square = 1.0 - BETA_1**n_steps, 1.0 - BETA_2**n_steps
    direction = (mean / total_in_mean) / (np.sqrt(square / total_in_square) + EPSILON)
    return AdamState(n_steps, mean, square), direction


def cosine_annealing(learning_rate, share):
    """Return the learning rate after the fraction `share` of all steps."""
    return 0.5 * learning_rate * (1.0 + np.cos(np.pi * share))


def inverse_time_decay(learning_rate, n_steps):
    """Return the learning rate after `n_steps` steps of a stream.

    The sum of the rates over all steps is infinite, so any distance can still be covered.
    """
    return learning_rate / (1.0 + n_steps / HALF_TIME)


def rate_with_memory(learning_rate, n_steps, share, step_in_memory):
    """Return the learning rate after `n_steps` steps of a stream whose earlier rows are forgotten.

    A step has the fraction `share` of the rows for which `learning_rate` is meant, and the fraction
    `step_in_memory` of those that are remembered. The sum of the rates over as many rows as are
    remembered does not fall below 1, so that the logarithm of a parameter can change by 1 while
    they are replaced. But no step is longer than `learning_rate`.
    """
    decreasing = share * inverse_time_decay(learning_rate, share * n_steps)
    return max(decreasing, min(learning_rate, step_in_memory))
