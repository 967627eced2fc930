"""Noise of which only a part is known at each row."""

from sparsegpc._core.likelihoods.excess_noise import PartlyKnownNoise, excess_noise_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import LearnedPolynomial, PolynomialPlan


class ExcessNoise(HomoscedasticNoise):
    """Gaussian noise whose variance is that given to `fit`, plus one that is learned.

    The first is what is known at each row, `noise_variance`, such as the squared standard error of
    a measurement. The excess, the same for all rows, is what else the columns do not explain:
    scatter of the quantity itself, or errors that the standard errors do not include.

    Parameters
    ----------
    variance : float or None, default=None
        Start value of the excess, as in :class:`HomoscedasticNoise`.
    variance_bounds : "fixed", pair of float or None, default=None
        Limits of the excess, as in :class:`HomoscedasticNoise`.

    See Also
    --------
    SparseGPRegressor : Uses it as parameter `noise`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import ExcessNoise, SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(0, 6, size=(400, 1))
    >>> error = rng.uniform(0.1, 0.5, size=400)  # standard errors of the measurements
    >>> y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=400) + error * rng.normal(size=400)
    >>> gp = SparseGPRegressor(noise=ExcessNoise()).fit(X, y, noise_variance=error**2)
    >>> bool(0.25 < np.sqrt(gp.noise_variance_) < 0.35)  # the excess
    True
    """

    needs_known = takes_known = True

    def __init__(self, variance=None, variance_bounds=None):
        super().__init__(variance, variance_bounds)

    def _plan(self, data):
        """Return the `NoisePlan` for a `NoiseData`."""
        return self._learning_plan(ExcessPlan, data)


class ExcessPlan(PolynomialPlan):
    """Plan of a constant excess of the variance over what is known at each row."""

    # What is known of the variance may suffice, which needs no warning.
    at_limit = {"lower": None}

    def __init__(self, basis, names, *settings):
        super().__init__(basis, ["excess noise variance"], *settings)

    def rows_of(self, targets, merged):
        if targets.event is not None:
            return super().rows_of(targets, merged)
        return merge_rows(targets.X, targets.weight, targets=targets.noise_variance.T)

    def model(self, kernel, targets, rows, options):
        if targets.event is not None:
            return super().model(kernel, targets, rows, options)
        y = [
            excess_noise_targets(output, targets.weight, known, rows)
            for output, known in zip(targets.y, targets.noise_variance, strict=True)
        ]
        return SparseModel(kernel, PartlyKnownNoise(), rows.X, y, rows.weight, **options)

    def learned(self, evaluation):
        return LearnedExcess(self.basis, super().learned(evaluation).coefficients)


class LearnedExcess(LearnedPolynomial):
    """The learned excess of each output, to which what is known at a row is added."""

    adds_to_known = True
