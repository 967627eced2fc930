"""Decreasing learning rates."""

import numpy as np

# Steps after which the rate of a stream is half of the first.
HALF_TIME = 20


def cosine_annealing(learning_rate, share):
    """Return the learning rate after the fraction `share` of all steps."""
    return 0.5 * learning_rate * (1.0 + np.cos(np.pi * share))


def inverse_time_decay(learning_rate, n_steps):
    """Return the learning rate after `n_steps` steps of a stream.

    The sum of the rates over all steps is infinite, so any distance can still be covered.
    """
    return learning_rate / (1.0 + n_steps / HALF_TIME)
