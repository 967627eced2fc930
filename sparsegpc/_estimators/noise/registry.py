"""The kinds of noise by the names that users give."""

from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.known import KnownPlan
from sparsegpc._estimators.noise.polynomial import PolynomialNoise
from sparsegpc._estimators.noise.process import GPNoise

NOISES = {
    "homoscedastic": HomoscedasticNoise,
    "polynomial": PolynomialNoise,
    "gp": GPNoise,
}
DEFAULT = "homoscedastic"


def one_variance(variance=None, bounds=None):
    """Return settings of constant noise.

    Learning of noise that varies starts from it, and a WhiteKernel is translated into it.
    """
    return resolve_noise(HomoscedasticNoise(variance, bounds))


def make_plan(settings, setting):
    """Return the plan of noise `settings`, or of given variances for None."""
    return KnownPlan() if settings is None else settings._plan(setting)


def resolve_noise(noise):
    """Return the settings that the parameter `noise` stands for, checked."""
    settings = NOISES[noise]() if isinstance(noise, str) else noise
    settings._validate_params()
    return settings
