r"""The collapsed bound on the log marginal likelihood of Gaussian sites, and its gradient.

Each of the N rows has a Gaussian site :math:`t_n(f_n) = \exp(b_n f_n - p_n f_n^2 / 2 + o_n)`
with *precision* p, *shift* b and *log scale* o; f has the constant prior mean
:math:`\mu`. With whitened features V (see `features`) and :math:`h = V (b - p \mu)`,

.. math::
    B = I + V \mathrm{diag}(p) V^\top, \qquad
    \log \mathcal{Z} \ge -\tfrac12 \log|B| + \tfrac12 h^\top B^{-1} h
    + \textstyle\sum_n (\mu b_n - \tfrac12 \mu^2 p_n + o_n) + \mathrm{slack},

and the optimal q(u) is, in whitened coordinates, N(w, B^-1) with :math:`w = B^{-1} h`.

The slack is the penalty for variance that the inducing points do not explain; see `slacks`.

Examples
--------
Regression with a noise variance of 0.04: the bound with 4, 10 and all 30 rows as inducing points,
and the log marginal likelihood of the exact Gaussian process.

>>> from scipy.stats import multivariate_normal
>>> from sparsegpc._core.bounds.features import RowFeatures
>>> from sparsegpc._core.bounds.slacks import TIGHT
>>> from sparsegpc._core.kernels.algebra import FreeKernel
>>> from sparsegpc._core.kernels.families import RBF
>>> from sparsegpc._core.likelihoods.base import Sites
>>> from sparsegpc._core.rows.blocks import RowBlocks
>>> X = np.linspace(0.0, 5.0, 30)[:, None]
>>> y, p = np.sin(X[:, 0]), np.full(30, 25.0)
>>> sites = Sites(p, p * y, -0.5 * (np.log(2.0 * np.pi / p) + p * y**2))
>>> theta = np.zeros(1)  # the log length scale
>>> kernel = FreeKernel(RBF(1), theta, np.array([True]))
>>> def bound(Z):
...     features = RowFeatures(RowBlocks(len(X), len(Z)), kernel, theta, Z, X)
...     return collapse(features, sites, TIGHT, prior_mean=0.0).bound
>>> print(*(f"{bound(Z):.4f}" for Z in (X[::8], X[::3], X)))
-4.2114 6.4116 6.4388
>>> exact = multivariate_normal(cov=kernel.value(theta, X, X) + np.diag(1.0 / p)).logpdf(y)
>>> print(f"{exact:.4f}")
6.4388
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from sparsegpc._core.numerics.floats import EPSILON, TINY
from sparsegpc._core.numerics.linalg import (
    cholesky_of_identity_plus,
    column_squares,
    inverse_from_cholesky,
    log_det,
    mirrored,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)
from sparsegpc._core.numerics.triangles import reduced
from sparsegpc._core.rows.blocks import strips


class FunctionPosterior(NamedTuple):
    """The optimal q(u) of one function at given sites, and its bound.

    ``w`` (M,) and ``LB`` (M, M) are the mean and the Cholesky factor of the precision in whitened
    coordinates; ``prior_mean`` is the constant mean of f; ``bound`` is in nats; ``mean_ratio`` is
    the mean of the residual ratio, precision times residual, over the ``n_rows`` rows.

    ``mean_variance`` is the variance of the prior mean given the sites; zero if it is known. The
    bound is that at the prior mean itself, but predictions take its uncertainty into account:
    theirs has this variance, and differs from the other by ``mean_shift``. ``w_p`` (M,) is minus
    the derivative of w w.r.t. the prior mean.
    """

    w: np.ndarray
    LB: np.ndarray
    prior_mean: float
    bound: float = np.nan
    mean_ratio: float = np.nan
    n_rows: float = np.nan
    mean_variance: float = 0.0
    mean_shift: float = 0.0
    w_p: np.ndarray | None = None

    def truncated(self, n_points):
        """Return q(u) of the first `n_points` points at the same sites and known prior mean.

        Luu is lower triangular, so the features of the first points are the first rows of V. B and
        h of the smaller model are leading blocks of the larger ones, and the sum of the residual
        ratios grows by the trace of the part of B - I that is dropped. The bound is NaN, because it
        needs the rows. This takes O(M^2) operations.
        """
        LB = np.asfortranarray(self.LB[:n_points, :n_points])
        h = self.LB[:n_points] @ (self.LB.T @ self.w)
        dropped = (self.LB[n_points:] ** 2).sum() - (len(self.LB) - n_points)
        return FunctionPosterior(
            solve_cholesky(LB, h),
            LB,
            self.prior_mean,
            mean_ratio=self.mean_ratio + dropped / self.n_rows,
            n_rows=self.n_rows,
        )

    def at_prior_mean(self):
        """Return q(u) with the prior mean taken as known."""
        return self._replace(mean_variance=0.0, mean_shift=0.0, w_p=None)

    def with_mean_precision(self, precision):
        """Return q(u) with a normal prior of this precision in the variance of the prior mean."""
        return self._replace(
            mean_variance=self.mean_variance / (1.0 + precision * self.mean_variance)
        )

    def share_of_mean(self, V, given_w=1.0):
        """Return the derivative of the mean of f w.r.t. the prior mean at rows of features V, (N,).

        It is zero where the sites determine f, and one far from all points. `given_w` is the
        derivative at a fixed w: one for f, zero for a part of f to which the prior mean does not
        belong.
        """
        return given_w if self.w_p is None else given_w - self.w_p @ V

    def with_uncertain_mean(self, mean, variance, share):
        """Return moments of f (N,) with the prior mean as uncertain as it is, given those without.

        `share` is the derivative of the mean of f w.r.t. the prior mean, see `share_of_mean`.
        """
        return mean + self.mean_shift * share, variance + self.mean_variance * share**2

    def __reduce__(self):
        return reduced(self, "LB")


class MeanPrior(NamedTuple):
    """A normal prior of the prior mean of a function, with this ``mean`` and ``precision``.

    By default it is flat.
    """

    mean: float = 0.0
    precision: float = 0.0

    def log_density(self, prior_mean):
        """Return the log density, in nats, minus its maximum."""
        return -0.5 * self.precision * (prior_mean - self.mean) ** 2


FLAT = MeanPrior()


class RowSums(NamedTuple):
    """The sums over rows that determine q(u) and the bound.

    ``VpV`` (M, M) is V diag(p) V^T; ``Vp``, ``Vb`` (M,) are V p and V b; the other fields are the
    sums of precisions, shifts, log scales, residual ratios and the `row_term` of the slack.
    """

    VpV: np.ndarray
    Vp: np.ndarray
    Vb: np.ndarray
    precision: float
    shift: float
    log_scale: float
    residual_ratio: float
    slack: float


def row_sums(features, sites, slack):
    """Return the `RowSums`. Cost N M^2."""

    def sums(V, residual, p, b, log_scale):
        ratio = p * residual
        terms = p, b, log_scale, ratio, slack.row_term(ratio)
        numbers = np.array([term.sum() for term in terms])
        return weighted_gram(V, p), V @ p, V @ b, numbers

    VpV, Vp, Vb, numbers = features.sum(sums, features.residual, *sites)
    return RowSums(mirrored(VpV), Vp, Vb, *numbers.tolist())


class _Profile(NamedTuple):
    r"""The bound without its slack as a function of the prior mean, at the optimal q(u).

    With the ``centre`` :math:`\mu_0`, the ``value`` :math:`A_0`, the ``slope`` :math:`A_1` and the
    ``curvature`` :math:`A_2`, at the prior mean :math:`\mu = \mu_0 + x`

    .. math:: \mathcal{L}_0 = -\tfrac12 \log|B| + A_0 + A_1 x - \tfrac12 A_2 x^2, \qquad
        w = w_b - x w_p, \quad w_b = B^{-1} V (b - \mu_0 p), \quad w_p = B^{-1} V p.
    """

    LB: np.ndarray
    w_p: np.ndarray
    w_b: np.ndarray
    centre: float
    value: float
    slope: float
    curvature: float

    def posterior(self, slack_term, sum_of_ratios, n_rows, prior_mean, mean_prior=FLAT):
        """Return the `FunctionPosterior` at a prior mean.

        None maximises the bound plus the log density of a `MeanPrior`.
        """
        if prior_mean is None:
            pull = mean_prior.precision * (mean_prior.mean - self.centre)
            x = (self.slope + pull) / (self.curvature + mean_prior.precision)
        else:
            x = prior_mean - self.centre
        bound = self.value + self.slope * x - 0.5 * self.curvature * x * x
        bound += slack_term - 0.5 * log_det(self.LB)
        found = FunctionPosterior(
            self.w_b - x * self.w_p,
            self.LB,
            float(self.centre + x if prior_mean is None else prior_mean),
            float(bound),
            sum_of_ratios / n_rows,
            n_rows,
        )
        if prior_mean is not None:
            return found
        # Rounding errors of w_p must not count where the curvature is a small difference.
        precision = self.curvature + float(((self.LB.T @ self.w_p) ** 2).sum())
        curvature = max(self.curvature, EPSILON * precision) + mean_prior.precision
        return found._replace(mean_variance=1.0 / curvature, w_p=self.w_p.copy())


def mean_curvature(precision, Vp, w_p):
    """Return the curvature of the bound in the prior mean, the sum of entries of (P^-1 + Q)^-1.

    `precision` is the sum of p, and `w_p` is B^-1 V p. The result is positive in spite of rounding.
    """
    return max(precision - Vp @ w_p, EPSILON * precision, TINY)


def _profile(sums):
    r"""Return the `_Profile` from the sums, with their rounding errors. Cost M^3 / 3.

    With :math:`h = V (b - \mu_0 p)` the coefficients are
    :math:`A_0 = \sum_n (o_n + \mu_0 b_n - \tfrac12 \mu_0^2 p_n) + \tfrac12 h^\top w_b`,
    :math:`A_1 = \sum_n (b_n - \mu_0 p_n) - (V p)^\top w_b`, whose sum vanishes, and
    :math:`A_2 = \sum_n p_n - (V p)^\top w_p`.
    """
    LB = cholesky_of_identity_plus(sums.VpV)
    centre = sums.shift / sums.precision if sums.precision > 0.0 else 0.0
    h = sums.Vb - centre * sums.Vp
    w_p, w_b = solve_cholesky(LB, np.stack([sums.Vp, h], axis=1)).T
    value = (
        sums.log_scale
        + centre * sums.shift
        - 0.5 * centre * centre * sums.precision
        + 0.5 * h @ w_b
    )
    curvature = mean_curvature(sums.precision, sums.Vp, w_p)
    return _Profile(LB, w_p, w_b, centre, value, -sums.Vp @ w_b, curvature)


def optimal_posterior(sums, n_rows, slack, prior_mean=None):
    """Return the optimal `FunctionPosterior` from the sums over `n_rows` rows. Cost M^3 / 3.

    The result equals that of `collapse`, except for the digits that cancel in the sums where
    precisions are large.
    """
    slack_term = slack.value(sums.slack, n_rows)
    return _profile(sums).posterior(slack_term, sums.residual_ratio, n_rows, prior_mean)


def collapse(features, sites, slack, prior_mean=None, peaks=None, mean_prior=FLAT):
    r"""Return the optimal q(u) for given sites as a `FunctionPosterior`, with the bound.

    With a `prior_mean` of None the bound plus the log density of a `MeanPrior` is maximised over
    the prior mean, in which it is quadratic. `peaks` holds the place of the maximum of each site,
    and its logarithm there, (N,) each: with large precisions the log scale loses digits that these
    keep.

    Cost N M^2 + M^3 / 3 + 4 N M. Where the data determine f well, the coefficients of `_Profile`
    are small differences of large sums, and digits cancel. The second pass over the rows computes
    them from residuals instead, at the cost 4 N M: with :math:`m^0 = \mu_0 + V^\top w_b` and
    :math:`\dot m = 1 - V^\top w_p`, its derivative w.r.t. the prior mean,

    .. math::
        A_0 &= \sum_n (o_n + b_n m^0_n - \tfrac12 p_n (m^0_n)^2) - \tfrac12 w_b^\top w_b, \\
        A_1 &= \sum_n \dot m_n (b_n - p_n m^0_n) + w_p^\top w_b, \qquad
        A_2 = \sum_n p_n \dot m_n^2 + w_p^\top w_p.
    """
    n_rows = features.n_rows
    sums = row_sums(features, sites, slack)
    profile = _profile(sums)
    w_p, w_b, centre = profile.w_p, profile.w_b, profile.centre

    def coefficients(V, p, b, log_scale, *peak):
        # m^0 less the centre, its derivative w.r.t. the prior mean, and alpha = b - p m^0.
        mean, share = w_b @ V, 1.0 - w_p @ V
        if peak:
            place, log_height = peak
            error = place - centre - mean
            alpha = p * error
            value = log_height - 0.5 * alpha * error
        else:
            d = b - centre * p
            alpha = d - p * mean
            value = log_scale + centre * (b - 0.5 * centre * p) + mean * (d - 0.5 * p * mean)
        return value.sum(), share @ alpha, p @ share**2

    value, slope, curvature = features.sum(coefficients, *sites, *(peaks or ()))
    profile = profile._replace(
        value=value - 0.5 * w_b @ w_b,
        slope=slope + w_p @ w_b,
        curvature=max(curvature + w_p @ w_p, TINY),
    )
    slack_term = slack.value(sums.slack, n_rows)
    return profile.posterior(slack_term, sums.residual_ratio, n_rows, prior_mean, mean_prior)


def divergence(posterior):
    """Return KL(q(u) || p(u)) in nats; it does not depend on the prior mean. Cost M^3."""
    w, LB = posterior.w, posterior.LB
    trace = column_squares(solve_lower(LB, np.eye(len(w)))).sum()
    return 0.5 * float(trace + w @ w - len(w) + log_det(LB))


def marginals(V, residual, posterior):
    """Return mean and variance of f, shape (N,) each, at points with features V and residual.

    The variance is that of p(f|u) q(u), which predictions use: the scale v affects only the bound.
    Cost N M^2.
    """
    mean, inducing_variance = inducing_moments(V, posterior)
    return mean, inducing_variance + residual


def inducing_moments(V, posterior):
    """Return the mean of f and the part of its variance that comes from q(u), shape (N,) each."""
    mean = posterior.w @ V
    mean += posterior.prior_mean
    return mean, column_squares(solve_lower(posterior.LB, V))


def covariance(residual, V, posterior, out=None):
    """Return the covariance of f, shape (N, N), where `residual` is the matrix K - V^T V."""
    half = solve_lower(posterior.LB, V)
    out = np.matmul(half.T, half, out=out)
    out += residual
    # Rounding can make residuals negative that are zero.
    np.fill_diagonal(out, np.maximum(out.diagonal(), 0.0))
    return out


class Gradient(NamedTuple):
    """Derivatives of a bound w.r.t. the kernel's parameters (P,) and the points (M, D) or None.

    ``moments`` is None or the mean and the variance of f at the rows, (K, N) each, of K outputs.
    The variance includes the residual times its scale v, as in the bound.
    """

    theta: np.ndarray
    Z: np.ndarray | None
    moments: tuple | None


def gradient(features, outputs, slack, *, wrt_Z=False, moments=False):
    r"""Return the `Gradient` of the bound at fixed sites w.r.t. the kernel's parameters and Z.

    If the sites are optimal for the current kernel, it is the total derivative (envelope theorem).
    The outputs share the features, and the gradient is that of the sum of their bounds. Each output
    is a triple: its `Sites`; the result of `collapse`; and minus twice the derivative of the bound
    w.r.t. the residual, (N,), or None to take the derivative from the slack. `moments` asks for the
    moments of f at the rows, which cost N M.

    Let :math:`g = p v`. The derivative of the bound w.r.t. the residual is :math:`-g / 2`, that
    w.r.t. V, including that through the residual, is

    .. math:: \bar V = -B^{-1} V P + w (b - p m)^\top + V \mathrm{diag}(g),

    and from :math:`V (b - p m) = w` follows

    .. math:: -\tfrac12 \bar V V^\top
        = -\tfrac12 [B^{-1} - I + w w^\top + V \mathrm{diag}(g) V^\top],

    from which `pull_back` computes the derivative w.r.t. Kuu. The cost is 2 N M^2 for each output,
    plus 3 N M^2, or 2 N M^2 if the slack has unit scale.
    """
    n_rows = features.n_rows
    posteriors, inputs = [], []
    # With unit scales V diag(g) V^T is B - I, so it need not be computed.
    needs_gram = not slack.has_unit_scale or any(g is not None for *_, g in outputs)
    for sites, posterior, residual_cost in outputs:
        ratio = sites.precision * features.residual
        v = np.broadcast_to(slack.scale(ratio, posterior.mean_ratio), (n_rows,))
        g = sites.precision * v if residual_cost is None else residual_cost
        if needs_gram:
            # A residual of zero is at its minimum, so its derivatives are zero. A large g would
            # magnify their rounding errors. Rounding may turn a g near zero negative.
            g = np.where(features.residual > 0.0, np.maximum(g, 0.0), 0.0)
        posteriors.append((posterior.w, posterior.prior_mean, inverse_from_cholesky(posterior.LB)))
        inputs.append(np.stack([sites.precision, sites.shift, g, v * features.residual]))
    grams = None if needs_gram else [q.LB @ q.LB.T for _, q, _ in outputs]
    theta, Z, rows = features.pull_back(
        partial(_adjoint_V, posteriors, needs_gram, moments),
        inputs,
        -0.5 * sum(g for _, _, g, _ in inputs),
        partial(_adjoint_Kuu, posteriors, grams),
        wrt_Z,
    )
    return Gradient(theta, Z, (np.stack(rows[::2]), np.stack(rows[1::2])) if moments else None)


def _adjoint_V(posteriors, needs_gram, moments, V, *values):
    """Return the derivative w.r.t. V, the sums that `_adjoint_Kuu` takes, and the moments.

    The first is the sum over the outputs. `posteriors` holds w, the prior mean and B^-1 of each
    output, `values` its precision, shift, g and scaled residual at the rows of a block.
    """
    total, mean_and_variance = None, []
    sum_g = sum(g for _, _, g, _ in values)
    for (w, prior_mean, B_inverse), (p, shift, _, scaled_residual) in zip(
        posteriors, values, strict=True
    ):
        mean = w @ V
        mean += prior_mean
        V_bar = B_inverse @ V
        if moments:
            # Where precisions are large, rounding may turn the first term negative.
            inducing_variance = np.maximum(np.einsum("mn,mn->n", V, V_bar), 0.0)
            mean_and_variance += [mean, inducing_variance + scaled_residual]
        alpha = shift - p * mean
        # In place, and a few rows at a time: the array is as large as V.
        for strip in strips(*V_bar.shape):
            part = V_bar[strip]
            part *= -p
            part += w[strip, None] * alpha
            part += V[strip] * sum_g if total is None else total[strip]
        total = V_bar
    return total, (weighted_gram(V, sum_g),) if needs_gram else (), mean_and_variance


def _adjoint_Kuu(posteriors, grams, sums):
    """Return minus half the derivative w.r.t. V times V^T, which is symmetric, in closed form.

    `grams` holds B of each output. If it is None, the only entry of `sums` is V diag(g) V^T.
    """
    if grams is None:
        total = mirrored(sums[0])
    else:
        total = sum(grams)
        total.flat[:: len(total) + 1] -= len(grams)
    for w, _, B_inverse in posteriors:
        total += B_inverse
        total += np.outer(w, w)
    total.flat[:: len(total) + 1] -= len(posteriors)
    return -0.5 * total
