"""Noise with the same variance at all rows, learned or fixed: a polynomial of degree zero."""

import numbers

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc._estimators.input.validation import NOISE_RANGE
from sparsegpc._estimators.noise.base import LIMITS, START, NoiseSettings
from sparsegpc._estimators.noise.known import KnownPlan
from sparsegpc._estimators.noise.polynomial import PolynomialBasis, PolynomialPlan


class HomoscedasticNoise(NoiseSettings):
    """Gaussian noise of the same variance at all rows.

    Parameters
    ----------
    variance : float or None, default=None
        Start value, in squared units of the target (of the normalised target with
        ``normalize_y=True``). None means a tenth of the variance of the targets, near which a prior
        keeps the variance if the kernel has a name and `variance_bounds` is None
        (:ref:`user guide <noise-prior>`).
    variance_bounds : "fixed", pair of float or None, default=None
        Limits of the variance; "fixed" keeps `variance`. None means 1e-8 and 10 times the variance
        of the targets.

    See Also
    --------
    SparseGPRegressor : Uses it as parameter `noise`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import HomoscedasticNoise, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SparseGPRegressor(noise=HomoscedasticNoise(3000.0), n_inducing=20).fit(X, y)
    >>> model.predict_noise_std(X).shape
    (442,)
    """

    takes_limits = True
    _parameter_constraints = {
        "variance": [Interval(numbers.Real, *NOISE_RANGE, closed="both"), None],
        "variance_bounds": [StrOptions({"fixed"}), "array-like", None],
    }

    def __init__(self, variance=None, variance_bounds=None):
        self.variance = variance
        self.variance_bounds = variance_bounds

    def _checked_bounds(self):
        """Check `variance_bounds`, and return them as an array of two positive numbers."""
        bounds = np.asarray(self.variance_bounds, dtype=np.float64)
        smallest, largest = NOISE_RANGE
        if bounds.shape != (2,) or not smallest <= bounds[0] <= bounds[1] <= largest:
            raise ValueError(
                "variance_bounds must be 'fixed' or a pair of positive numbers, the lower one "
                f"first, from {smallest:.0e} to {largest:.0e}, got {self.variance_bounds!r}: give "
                "None for limits relative to the targets"
            )
        return bounds

    def _starts(self, data):
        """Return the start values of the variances of a `NoiseData`, (n_outputs,)."""
        if self.variance is None:
            return START * data.variance
        return np.full(len(data.variance), float(self.variance))

    @property
    def takes_known(self):
        """Whether variances that `fit` gets may replace this noise."""
        return not self._is_fixed

    @property
    def _is_fixed(self):
        return isinstance(self.variance_bounds, str)

    def _plan(self, data):
        """Return the `NoisePlan` for a `NoiseData`."""
        if self._is_fixed:
            return KnownPlan(self._starts(data))
        return self._learning_plan(PolynomialPlan, data)

    def _learning_plan(self, plan, data):
        """Return a `plan`, a class, of a variance to be learned, for a `NoiseData`."""
        starts, bounds = self._starts(data), data.variance[:, None] * LIMITS
        if self._is_fixed:
            bounds = np.tile(starts[:, None], 2)
        elif self.variance_bounds is not None:
            bounds = np.tile(self._checked_bounds(), (len(data.variance), 1))
        is_open = self.variance is None and self.variance_bounds is None
        basis = PolynomialBasis(data.X, 0)
        settings = basis, basis.names(data.columns), np.log(starts), np.log(bounds)
        return plan(*settings, data.prior_mean if is_open else None)
