"""Learning rates that fall."""

import numpy as np

# Of a stream: the number of steps after which the learning rate is half of what it was.
HALVING_STEPS = 20


def annealed(learning_rate, share):
    """Return the learning rate after a `share` of all steps of a known number: half a cosine."""
    return 0.5 * learning_rate * (1.0 + np.cos(np.pi * share))


def halving(learning_rate, n_steps):
    """Return the learning rate after `n_steps` of a stream, whose sum over steps is unbounded."""
    return learning_rate / (1.0 + n_steps / HALVING_STEPS)
