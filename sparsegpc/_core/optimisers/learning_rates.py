"""Learning rates that fall."""

import numpy as np


def annealed(learning_rate, share):
    """Return the learning rate after a `share` of all steps of a known number: half a cosine."""
    return 0.5 * learning_rate * (1.0 + np.cos(np.pi * share))


def halving(learning_rate, n_steps, n_half=20):
    """Return the learning rate after `n_steps` of a stream: half of it after `n_half`.

    Its sum over steps is unbounded.
    """
    return learning_rate / (1.0 + n_steps / n_half)
