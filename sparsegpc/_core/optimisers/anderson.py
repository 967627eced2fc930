"""Anderson's extrapolation of a fixed-point iteration from its last few points and images."""

import numpy as np


class Anderson:
    r"""Extrapolation from the last pairs of x and its image under the iteration.

    The next point is the sum of the images with the weights, adding up to one, that make the same
    sum of the residuals shortest. With the changes from pair to pair it is the last image less
    :math:`\gamma` times the changes of the images, for the :math:`\gamma` that makes the last
    residual less :math:`\gamma` times the changes of the residuals shortest.

    Parameters
    ----------
    depth : int
        Most pairs before the last one.
    keeps_pairs : bool
        Keep the pairs where a plain step was refused; else forget them. After an extrapolated
        step that was refused they are forgotten in any case.

    Attributes
    ----------
    extrapolated : bool
        Whether the last `next` was more than an image.

    Notes
    -----
    A point has ``x`` and its ``image``, both of any type. Its ``residual(x, image)`` returns the
    difference of the two as a vector in the metric at this point, and ``combined(gamma, images)``
    the x that follows from n images and n - 1 numbers, or None if it is not a valid one.
    """

    def __init__(self, depth=5, keeps_pairs=False):
        self._depth, self._keeps_pairs = depth, keeps_pairs
        self.forget()

    def forget(self):
        """Discard all pairs."""
        self._pairs, self.extrapolated = [], False

    def refuse(self):
        """Note that the last step was refused."""
        if self.extrapolated or not self._keeps_pairs:
            self.forget()

    def next(self, point):
        """Return the x to try after a point."""
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
        """Return the weights of the changes, shape (n - 1,) for n pairs."""
        residuals = np.stack([point.residual(*pair) for pair in self._pairs])
        changes = np.diff(residuals, axis=0)
        gram = changes @ changes.T
        # The changes may be nearly dependent.
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-8
        return np.linalg.lstsq(gram, changes @ residuals[-1], rcond=1e-12)[0]
