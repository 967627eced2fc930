"""Public names of the kinds of noise."""

from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import PolynomialNoise
from sparsegpc._estimators.noise.process import GPNoise
from sparsegpc._estimators.noise.student_t import StudentTNoise

NOISES = {
    "homoscedastic": HomoscedasticNoise,
    "polynomial": PolynomialNoise,
    "gp": GPNoise,
    "student-t": StudentTNoise,
}
# "auto" decides among noise that is the same for all rows, noise that varies, and noise with
# outliers.
AUTO, DEFAULT, VARYING, STUDENT_T = "auto", "homoscedastic", "gp", "student-t"


def noise_for(noise, targets):
    """Return the parameter `noise`, or the only one that "auto" means for censored `Targets`."""
    return DEFAULT if noise == AUTO and targets.event is not None else noise


def resolve_noise(noise):
    """Check the parameter `noise`, and return the settings that it means.

    For "auto" they are those of the noise that varies.
    """
    if noise == AUTO:
        noise = VARYING
    settings = NOISES[noise]() if isinstance(noise, str) else noise
    settings._validate_params()
    return settings
