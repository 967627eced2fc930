"""Generalised FITC by expectation propagation, and the mean-field bound: methods to compare with.

Both are for two classes with the probit link, a squared exponential kernel of one length scale
and mean zero. Labels y are -1 and 1. As elsewhere V = Luu^-1 Kuf (M, N) holds the whitened
features, Q = V' V, and r = k(x, x) - diag(Q) are the residual variances.

`expectation_propagation`
    Naish-Guzman and Holden 2007: the prior is N(0, Q + diag(r)). Its log evidence is no bound.
`mean_field`
    Hensman, Matthews and Ghahramani 2015, section 3.1: the bound of equation (12).

Each takes V and r, and returns its value, its derivatives with respect to V and r, and a Gaussian
for the whitened inducing variables, all in O(N M^2) for a pass. `fit` maximises one of them over
the variance, the length scale and the inducing points.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr

JITTER = 1e-8  # on the diagonal of Kuu, in units of the variance
ROUNDING = 1e-13  # of a bound, relative
LOG_ROOT_2_PI = 0.5 * np.log(2.0 * np.pi)


class Inference(NamedTuple):
    """Value and derivatives of an objective, and q of the whitened inducing variables.

    q has the mean `mean` (M,) and the covariance inverse(`LB` `LB`'). A search at other
    hyperparameters may start from `state`. `converged` tells whether this one has arrived.
    """

    value: float
    dV: np.ndarray
    dr: np.ndarray
    mean: np.ndarray
    LB: np.ndarray
    state: np.ndarray
    converged: bool


class Model(NamedTuple):
    """A fitted model: hyperparameters, points, its last inference, and the work it took."""

    variance: float
    length_scale: float
    Z: np.ndarray
    inference: Inference
    n_evaluations: int


def factor(V, p):
    """Return the lower Cholesky factor of B = I + V diag(p) V'."""
    return cholesky(np.eye(len(V)) + (V * p) @ V.T, lower=True)


def solve(L, A):
    """Return inverse(L L') A."""
    return solve_triangular(L, solve_triangular(L, A, lower=True), lower=True, trans=1)


def log_normal_ratio(t):
    """Return log(phi(t) / Phi(t)) of the standard normal density and distribution function."""
    return -0.5 * t**2 - LOG_ROOT_2_PI - log_ndtr(t)


# Expectation propagation


def tilted_derivatives(y, mean, variance):
    """Return log E[Phi(y f)] under N(mean, variance), and its derivatives in the mean."""
    scale = np.sqrt(1.0 + variance)
    t = y * mean / scale
    ratio = np.exp(log_normal_ratio(t))
    return log_ndtr(t), y * ratio / scale, -ratio * (ratio + t) / scale**2


def expectation_propagation(V, r, y, state=None, tol=1e-9, max_iter=500):
    """Return the `Inference` at the fixed point; `state` holds the sites, b and p (2, N).

    Each row has the site exp(b z - p z^2 / 2) on z = (V' a)_n, of which the residual is
    independent: integrated with the likelihood, it adds r to the variance of the cavity. All sites
    are updated at once, and by smaller steps once the changes have stopped to fall.
    """
    sites = np.zeros((2, len(y))) if state is None else state
    step, last = 1.0, np.inf
    for _ in range(max_iter):
        b, p = sites
        LB = factor(V, p)
        mean = solve(LB, V @ b)
        m, s = V.T @ mean, (solve_triangular(LB, V, lower=True) ** 2).sum(axis=0)
        # The probit likelihood is log-concave: p >= 0, and s < 1 / p.
        share = 1.0 - p * s
        m_cavity, s_cavity = (m - s * b) / share, s / share
        log_z, d1, d2 = tilted_derivatives(y, m_cavity, s_cavity + r)
        shrinkage = 1.0 + s_cavity * d2
        change = np.array([d1 - m_cavity * d2, -d2]) / shrinkage - sites
        size = np.abs(change).max() / (1.0 + np.abs(sites).max())
        if size < tol:
            break
        if size > 0.9 * last:
            step = max(0.7 * step, 0.1)
        sites, last = sites + step * change, size
    log_site = -0.5 * np.log1p(p * s_cavity) + 0.5 * (
        2.0 * b * m_cavity + b**2 * s_cavity - p * m_cavity**2
    ) / (1.0 + p * s_cavity)
    value = -np.log(np.diag(LB)).sum() + 0.5 * mean @ (V @ b) + (log_z - log_site).sum()
    # At the fixed point the value is stationary in the sites, and in the cavities that they make.
    dV = np.outer(mean, b - p * m) - solve(LB, V * p)
    dr = 0.5 * (d2 + d1**2)
    return Inference(value, dV, dr, mean, LB, sites, bool(size < tol))


# Mean field


def truncated_moments(y, a, s2):
    """Return log mass, mean and variance of N(a, s2) where g has the sign y."""
    t = y * a / np.sqrt(s2)
    ratio = np.exp(log_normal_ratio(t))
    return log_ndtr(t), a + y * np.sqrt(s2) * ratio, s2 * (1.0 - ratio * (ratio + t))


def mean_field(V, r, y, state=None, tol=1e-9, max_iter=100):
    """Return the `Inference` at the maximum over q(g); `state` holds a / s2 (N,).

    q(g_n) is N(a_n, s2_n) where g_n has the sign y_n, with s2_n = 1 / P_nn, P = inverse(Q + I).
    The bound is concave in the means of q(g); Newton's steps are halved until it rises. The
    Gaussian of the inducing variables is that below equation (13): its covariance does not know
    how uncertain g is.
    """
    LB = factor(V, np.ones(len(y)))
    half = solve_triangular(LB, V, lower=True)
    P_diagonal = 1.0 - (half**2).sum(axis=0)
    s2 = 1.0 / P_diagonal
    log_det = 2.0 * np.log(np.diag(LB)).sum()

    def bound(eta):
        """Return the bound, means and variances of q(g), and Pg."""
        a = s2 * eta
        log_mass, g, v = truncated_moments(y, a, s2)
        Pg = g - half.T @ (half @ g)
        entropies = log_mass + 0.5 * (np.log(s2) + ((a - g) ** 2 + v) / s2)
        value = entropies.sum() - 0.5 * (log_det + g @ Pg + P_diagonal @ v + r.sum())
        return value, g, v, Pg

    eta = np.zeros(len(y)) if state is None else state
    value, g, v, Pg = bound(eta)
    converged = False
    for _ in range(max_iter):
        gradient = P_diagonal * g - Pg - eta
        if np.abs(gradient).max() < tol * (1.0 + np.abs(eta).max()):
            converged = True
            break
        # The Hessian in the means is minus diag(1/v - P_nn) - P = half' half - diag(c).
        c = 1.0 / v - P_diagonal + 1.0
        inner = cholesky(np.eye(len(V)) - (half / c) @ half.T, lower=True)
        step = gradient / c + half.T @ solve(inner, half @ (gradient / c)) / c
        direction, length = step / v, 1.0
        while True:
            found = bound(eta + length * direction)
            if found[0] >= value - ROUNDING * abs(value) or length < 1e-8:
                break
            length *= 0.5
        eta = eta + length * direction
        value, g, v, Pg = found
    mean = solve(LB, V @ g)
    BV = solve(LB, V)
    dV = np.outer(mean, g - V.T @ mean) - BV + BV * v - (BV * v) @ V.T @ BV
    return Inference(value, dV, np.full(len(y), -0.5), mean, LB, eta, converged)


# Both


def kernel_matrices(X, Z, variance, length_scale):
    """Return Kuu, jitter added, its lower Cholesky factor, and Kuf."""
    Kuu = variance * np.exp(-0.5 * cdist(Z, Z, "sqeuclidean") / length_scale**2)
    Kuu += JITTER * variance * np.eye(len(Z))
    Kuf = variance * np.exp(-0.5 * cdist(Z, X, "sqeuclidean") / length_scale**2)
    return Kuu, cholesky(Kuu, lower=True), Kuf


def evaluate(method, X, y, theta, Z, state=None):
    """Return the `Inference`, and the derivatives with respect to theta (2,) and Z.

    theta are the logarithms of variance and length scale.
    """
    variance, length_scale = np.exp(theta)
    Kuu, Luu, Kuf = kernel_matrices(X, Z, variance, length_scale)
    V = solve_triangular(Luu, Kuf, lower=True)
    r = variance - (V**2).sum(axis=0)
    found = method(V, r, y, state)
    dV = found.dV - 2.0 * V * found.dr
    # The value depends on V by V' V only, so V dV' is symmetric, and any root of Kuu would do.
    dKuf = solve_triangular(Luu, dV, lower=True, trans=1)
    half = solve_triangular(Luu, V @ dV.T, lower=True, trans=1)
    dKuu = -0.5 * solve_triangular(Luu, half.T, lower=True, trans=1)
    Wf, Wu = dKuf * Kuf, dKuu * Kuu
    d_variance = Wf.sum() + Wu.sum() + variance * found.dr.sum()
    squares = (Wf * cdist(Z, X, "sqeuclidean")).sum() + (Wu * cdist(Z, Z, "sqeuclidean")).sum()
    dZ = Wf @ X - Wf.sum(axis=1)[:, None] * Z
    dZ += 2.0 * (Wu @ Z - Wu.sum(axis=1)[:, None] * Z)
    dtheta = np.array([d_variance, squares / length_scale**2])
    return found, dtheta, dZ / length_scale**2


def fit(method, X, y, Z, bounds, move=True, max_iter=200):
    """Return the `Model` at the maximum found by L-BFGS-B from variance 1 and length scale root D.

    It is over the hyperparameters, and over the points if they `move`. `bounds` are those of the
    logarithms of variance and length scale.
    """
    n_evaluations, state = 0, None

    def parts(x):
        return x[:2], x[2:].reshape(Z.shape) if move else Z

    def negative(x):
        nonlocal n_evaluations, state
        n_evaluations += 1
        found, dtheta, dZ = evaluate(method, X, y, *parts(x), state)
        state = found.state if found.converged else None
        gradient = np.concatenate([dtheta, dZ.ravel()]) if move else dtheta
        return -found.value, -gradient

    start = np.array([0.0, 0.5 * np.log(X.shape[1])])
    if move:
        start = np.concatenate([start, Z.ravel()])
    limits = bounds + [(None, None)] * (len(start) - 2)
    options = {"maxiter": max_iter, "maxfun": 2 * max_iter}
    theta, Z = parts(minimize(negative, start, jac=True, bounds=limits, options=options).x)
    found, _, _ = evaluate(method, X, y, theta, Z)
    return Model(*np.exp(theta), Z, found, n_evaluations)


def latent_moments(model, X):
    """Return mean and variance of f at rows X."""
    _, Luu, Kuf = kernel_matrices(X, model.Z, model.variance, model.length_scale)
    V = solve_triangular(Luu, Kuf, lower=True)
    explained = solve_triangular(model.inference.LB, V, lower=True)
    residual = model.variance - (V**2).sum(axis=0)
    return V.T @ model.inference.mean, residual + (explained**2).sum(axis=0)


def log_probabilities(model, X):
    """Return the logarithms of the probabilities of -1 and of 1 at rows X, (N, 2)."""
    mean, variance = latent_moments(model, X)
    t = mean / np.sqrt(1.0 + variance)
    return np.column_stack([log_ndtr(-t), log_ndtr(t)])
