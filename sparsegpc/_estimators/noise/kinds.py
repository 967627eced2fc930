"""The kinds of noise by the names that users give."""

from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import PolynomialNoise
from sparsegpc._estimators.noise.process import GPNoise

NOISES = {
    "homoscedastic": HomoscedasticNoise,
    "polynomial": PolynomialNoise,
    "gp": GPNoise,
}


def resolve_noise(noise):
    """Return the settings that the parameter `noise` stands for, checked."""
    settings = NOISES[noise]() if isinstance(noise, str) else noise
    settings._validate_params()
    return settings
