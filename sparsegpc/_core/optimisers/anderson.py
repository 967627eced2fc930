"""Anderson's extrapolation of a fixed-point iteration from its last few points and images."""

import numpy as np

ANDERSON_DEPTH = 5
# For Gram matrices of nearly dependent changes.
RIDGE, RANK_TOLERANCE = 1e-8, 1e-12


class Anderson:
    r"""Extrapolation from the last pairs of a point and its image under the iteration.

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
    It is given attempts, which have a ``point`` and its ``image``, both of any kind. Their
    ``residual(point, image)`` returns the way from one to the other as a vector in the metric of
    this attempt, and ``combined(gamma, images)`` the point that follows from n images and n - 1
    numbers, or None where it is no point to go to.
    """

    def __init__(self, depth, keeps_pairs=False):
        self._depth, self._keeps_pairs = depth, keeps_pairs
        self.forget()

    def forget(self):
        """Go on from nothing."""
        self._pairs, self.extrapolated = [], False

    def refuse(self):
        """Take note that the last step was refused."""
        if self.extrapolated or not self._keeps_pairs:
            self.forget()

    def next(self, attempt):
        """Return the point to try after an attempt."""
        self._pairs.append((attempt.point, attempt.image))
        del self._pairs[: -self._depth - 1]
        found = None
        if len(self._pairs) > 1:
            found = attempt.combined(self._gamma(attempt), [image for _, image in self._pairs])
            if found is None:
                self.forget()
        self.extrapolated = found is not None
        return found if self.extrapolated else attempt.image

    def _gamma(self, attempt):
        """Return the weights of the changes, shape (n - 1,) for n pairs."""
        residuals = np.stack([attempt.residual(*pair) for pair in self._pairs])
        changes = np.diff(residuals, axis=0)
        gram = changes @ changes.T
        gram.flat[:: len(gram) + 1] *= 1.0 + RIDGE
        return np.linalg.lstsq(gram, changes @ residuals[-1], rcond=RANK_TOLERANCE)[0]
