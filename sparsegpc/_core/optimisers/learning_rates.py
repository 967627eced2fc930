"""Decreasing learning rates."""

import numpy as np


def annealed(learning_rate, share):
    """Return the learning rate after the fraction `share` of all steps, by cosine annealing."""
    return 0.5 * learning_rate * (1.0 + np.cos(np.pi * share))


def halving(learning_rate, n_steps, n_half=20):
    """Return the learning rate after `n_steps` steps of a stream; it is halved after `n_half`.

    The sum of the rates over all steps is infinite, so any distance can still be covered.
    """
    return learning_rate / (1.0 + n_steps / n_half)
