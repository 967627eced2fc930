"""Public names of the kinds of noise."""

from sparsegpc._estimators.noise.excess import ExcessNoise
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import PolynomialNoise
from sparsegpc._estimators.noise.process import GPNoise
from sparsegpc._estimators.noise.student_t import StudentTNoise

NOISES = {
    "homoscedastic": HomoscedasticNoise,
    "polynomial": PolynomialNoise,
    "gp": GPNoise,
    "student-t": StudentTNoise,
    "excess": ExcessNoise,
}
# "auto" decides among noise that is the same for all rows, noise that varies, and noise with
# outliers.
AUTO, DEFAULT, VARYING, STUDENT_T = "auto", "homoscedastic", "gp", "student-t"
EXCESS = "excess"


def noise_for(noise, targets):
    """Return the parameter `noise`, or what "auto" means for `Targets` that leave no choice."""
    if noise != AUTO:
        return noise
    if targets.noise_variance is not None:
        return EXCESS
    return noise if targets.event is None else DEFAULT


def resolve_noise(noise):
    """Check the parameter `noise`, and return the settings that it means.

    For "auto" they are those of the noise that varies.
    """
    if noise == AUTO:
        noise = VARYING
    settings = NOISES[noise]() if isinstance(noise, str) else noise
    settings._validate_params()
    return settings
