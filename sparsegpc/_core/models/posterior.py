"""The approximate posterior of f, and predictions from it.

A fitted estimator keeps one `Posterior`. With a noise process it keeps a second one, for the log
noise variance.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import covariance, inducing_moments, marginals
from sparsegpc._core.bounds.features import features
from sparsegpc._core.numerics.floats import EPSILON
from sparsegpc._core.numerics.linalg import (
    SAFE_PIVOT,
    column_squares,
    semidefinite_root,
    solve_lower,
)
from sparsegpc._core.numerics.triangles import reduced
from sparsegpc._core.rows.blocks import RowBlocks, Table, row_blocks, strips


class Posterior(NamedTuple):
    """The approximate posterior of K functions that share a kernel and M inducing points.

    ``theta`` (P,) holds the free hyperparameters of ``kernel``, a `FreeKernel`. ``Luu`` (M, M) is
    the Cholesky factor of the prior covariance at the points ``Z`` (M, D), with the relative
    ``jitter``. ``functions`` holds a `FunctionPosterior` for each function.
    """

    kernel: object
    theta: np.ndarray
    Z: np.ndarray
    Luu: np.ndarray
    jitter: float
    functions: tuple

    @property
    def prior_means(self):
        """The constant prior means of the functions, shape (K,)."""
        return np.array([q.prior_mean for q in self.functions])

    @property
    def unexplained_cost(self):
        """Half the sum of the residual ratios of the training rows (see `slacks`), in nats."""
        return 0.5 * sum(q.mean_ratio * q.n_rows for q in self.functions)

    def features(self, X):
        """Return the whitened features of N rows, shape (M, N), and their residuals, shape (N,)."""
        return features(self.kernel, self.theta, self.Z, self.Luu, X)

    def moments(self, X, **row_options):
        """Return the mean and the variance of each f at N rows, shape (K, N) each.

        The rows are visited block by block. Cost N M (M + D) for one function; memory for one block
        beyond the result.
        """

        def block(X):
            return (), self._moments(*self.features(X), has_mean=True)

        # A cluster caches an array object until it is deleted. The view is deleted after this call,
        # so the caller may change X afterwards.
        X = X.view() if isinstance(X, np.ndarray) else X
        return row_blocks(X, len(self.Z), **row_options).visit(block, Table(X))[1]

    def part_moments(self, cross, variance):
        """Return the mean and the variance of a part of each f, shape (K, n) each.

        A part is anything that is jointly Gaussian with f in the prior and depends on the data
        through f only, such as a summand of f; without the constant prior mean. `cross` (M, n),
        which is overwritten, is the prior covariance of f at the inducing points with the n values
        of the part, and `variance` (n,) the prior variance of these.
        """
        V = solve_lower(self.Luu, cross, overwrite=True)
        residual = np.maximum(variance - column_squares(V), 0.0)
        return self._moments(V, residual, has_mean=False)

    def difference_moments(self, X, reference):
        """Return the mean and the variance of a difference of averages of each f, shape (K,) each.

        It is the average over N rows minus that over J other rows. Cost (N + J) M D + (N + J)^2 D.
        """

        def average(rows, others):
            """Return the mean over `rows` of the prior covariances with `others`."""
            parts = strips(len(rows), len(others))
            values = (self.kernel.value(self.theta, others, rows[part]) for part in parts)
            return sum(value.sum(axis=1) for value in values) / len(rows)

        cross = average(X, self.Z) - average(reference, self.Z)
        within = average(X, X).mean() + average(reference, reference).mean()
        variance = within - 2.0 * average(X, reference).mean()
        moments = self.part_moments(cross[:, None], np.array([variance]))
        return tuple(part[:, 0] for part in moments)

    def _moments(self, V, residual, has_mean):
        """Return the moments of f or a part; `has_mean` tells if the prior mean belongs to it."""
        found, given_w = [], float(has_mean)
        for q in self.functions:
            moments = marginals(V, residual, q._replace(prior_mean=given_w * q.prior_mean))
            found.append(q.with_uncertain_mean(*moments, q.share_of_mean(V, given_w)))
        return tuple(map(np.stack, zip(*found, strict=True)))

    def weights(self):
        """Return the weights of the covariances with the points in each posterior mean, (K, M).

        The mean of f at x is its prior mean plus the sum over i of weight i times k(z_i, x).
        """
        w = np.stack([q.w for q in self.functions], axis=1)
        return solve_lower(self.Luu, w, transposed=True).T

    def covariance(self, X):
        """Return the mean and the covariance of each f at N rows, shape (K, N) and (K, N, N).

        Cost N M (M + D) + N^2 (M + D) for one function. Memory N^2 for each function, and N^2 or
        the working memory of the kernel beyond that.
        """
        V, residual, _ = self._joint_features(X)
        mean = np.stack(
            [inducing_moments(V, q)[0] + q.mean_shift * q.share_of_mean(V) for q in self.functions]
        )
        result = np.empty((len(self.functions), len(X), len(X)))
        for q, out in zip(self.functions, result, strict=True):
            covariance(residual, V, q, out=out)
            if q.mean_variance:
                share = q.share_of_mean(V)
                out += np.outer(q.mean_variance * share, share)
        return mean, result

    def draws(self, X, n_samples, rng):
        """Return joint draws of each f at N rows, shape (K, n_samples, N); they are independent.

        Each is a draw given u, plus the mean given a draw of u. The functions share a root of the
        covariance given u, which is exact up to the rounding errors of the prior variance. All are
        nan if the kernel overflows. Cost N M (M + D) + N^2 (M + D) + N r^2, where r is the rank of
        this root, N at most, and N (M + r) for each draw. Memory 2 N^2 or the working memory of the
        kernel, beyond the result.
        """
        V, residual, variance = self._joint_features(X)
        draws = np.empty((len(self.functions), n_samples, len(X)))
        if not (np.isfinite(variance) and np.isfinite(V).all()):
            draws[:] = np.nan
            return draws
        rounding = SAFE_PIVOT * len(V) ** 0.5 * EPSILON * variance
        root = semidefinite_root(residual, rounding)
        for q, out in zip(self.functions, draws, strict=True):
            # How many numbers are drawn does not depend on rounding.
            given_u = rng.standard_normal((n_samples, len(X)))[:, : root.shape[1]]
            np.matmul(given_u, root.T, out=out)
            of_u = rng.standard_normal((n_samples, len(V)))
            out += q.w @ V + q.prior_mean + of_u @ solve_lower(q.LB, V)
            share = q.share_of_mean(V)
            of_mean = q.mean_shift + q.mean_variance**0.5 * rng.standard_normal((n_samples, 1))
            out += of_mean * share
        return draws

    def _joint_features(self, X):
        """Return the features, the matrix K - V^T V and the largest prior variance at rows."""
        V, _ = self.features(X)
        residual = self.kernel.value(self.theta, X, X)
        variance = float(residual.diagonal().max())
        residual -= V.T @ V
        return V, residual, variance

    def truncated(self, n_points):
        """Return the posterior on the first inducing points, at the same sites and prior means."""
        return self._replace(
            Z=self.Z[:n_points],
            Luu=np.asfortranarray(self.Luu[:n_points, :n_points]),
            functions=tuple(q.truncated(n_points) for q in self.functions),
        )

    def __reduce__(self):
        return reduced(self, "Luu")


def posterior_of(features, functions):
    """Return the `Posterior` made of `RowFeatures` and a list of `FunctionPosterior`."""
    return Posterior(
        features.kernel, features.theta, features.Z, features.Luu, features.jitter, tuple(functions)
    )


def whitened_features(kernel, theta, Z, Luu, X, **row_options):
    """Return the transposed whitened features of new rows, shape (N, M)."""

    def block(X):
        return (), (features(kernel, theta, Z, Luu, X)[0],)

    blocks = RowBlocks(len(X), len(Z), n_read=X.shape[1], **row_options)
    return blocks.visit(block, Table(X))[1][0].T
