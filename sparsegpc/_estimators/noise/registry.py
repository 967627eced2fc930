"""What an estimator's parameters say about the noise: public names, and WhiteKernel summands."""

from sparsegpc._estimators.kernels.kernel_trees import split_white
from sparsegpc._estimators.kernels.sklearn_kernels import check_white
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
WHITE_IN_PRODUCT = (
    "a WhiteKernel may only be a summand of a regressor's kernel, where it stands for the noise"
)


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


def kernel_and_noise(kernel, noise, is_known):
    """Return the kernel of f, and the settings of the noise, or None if all of it is known.

    The arguments are the user's parameters, and whether the variance at each row was given. Raises
    ValueError if the kernel has a WhiteKernel although the noise is set elsewhere, or nothing else.
    """
    settings = resolve_noise(noise)
    is_name = kernel is None or isinstance(kernel, str)
    rest, whites = (kernel, []) if is_name else split_white(kernel)
    if not whites:
        return kernel, None if is_known and not settings.needs_known else settings
    for white in whites:
        check_white(white)
    if noise != DEFAULT:
        raise ValueError(
            f"kernel {kernel} holds a WhiteKernel, which stands for homoscedastic noise, beside "
            f"noise={noise!r}: leave one of them out"
        )
    if rest is None:
        raise ValueError(
            f"kernel {kernel} is noise only: add a covariance of f, for example "
            "ConstantKernel() * RBF()"
        )
    if len(whites) > 1:
        raise ValueError(
            f"kernel {kernel} must have one WhiteKernel at most: add their noise levels up"
        )
    (white,) = whites
    settings = ExcessNoise if is_known else HomoscedasticNoise
    return rest, resolve_noise(settings(white.noise_level, white.noise_level_bounds))
