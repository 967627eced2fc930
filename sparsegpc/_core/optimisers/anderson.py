"""Anderson acceleration: extrapolation of a fixed-point iteration from its last few points."""

import numpy as np


class Anderson:
    r"""Extrapolation from the last few points x and their images under the iteration.

    The residual of a point is its image less x. The next x is the weighted sum of the images whose
    weights sum to one and minimise the length of the same weighted sum of the residuals. It is
    computed as the last image less :math:`\gamma` times the changes from each image to the next,
    where :math:`\gamma` minimises, without constraints, the length of the last residual less
    :math:`\gamma` times the changes of the residuals.

    At most `depth` pairs are kept before the last one. They are discarded after a rejected
    extrapolated step and, unless `keeps_pairs`, after a rejected plain one. ``extrapolated`` tells
    whether the last call of `next` extrapolated rather than returned an image.

    A point has the attributes ``x`` and ``image``, of any type. Its method ``residual(x, image)``
    returns the difference of the two as a vector in the metric at this point.
    ``combined(gamma, images)`` returns the extrapolated x from n - 1 numbers and n images, or None
    if that x is not valid.
    """

    def __init__(self, depth=5, keeps_pairs=False):
        self._depth, self._keeps_pairs = depth, keeps_pairs
        self.forget()

    def forget(self):
        """Discard all pairs."""
        self._pairs, self.extrapolated = [], False

    def refuse(self):
        """Discard the pairs after the last step was rejected, unless `keeps_pairs` keeps them."""
        if self.extrapolated or not self._keeps_pairs:
            self.forget()

    def next(self, point):
        """Add a point and its image to the pairs, and return the x to try next."""
        self._pairs.append((point.x, point.image))
        del self._pairs[: -self._depth - 1]
        found = None
        if len(self._pairs) > 1:
            found = point.combined(self._gamma(point), [image for _, image in self._pairs])
            if found is None:
                self.forget()
        self.extrapolated = found is not None
        return found if self.extrapolated else point.image

    def _gamma(self, point):
        """Return gamma, the coefficients of the changes, shape (n - 1,) for n pairs."""
        residuals = np.stack([point.residual(*pair) for pair in self._pairs])
        changes = np.diff(residuals, axis=0)
        gram = changes @ changes.T
        # A small ridge, as the changes may be nearly linearly dependent.
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-8
        return np.linalg.lstsq(gram, changes @ residuals[-1], rcond=1e-12)[0]
