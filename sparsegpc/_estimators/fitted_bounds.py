"""Bounds, certificates and truncation of fitted models, from rows that the user passes again."""

import numbers
from copy import copy
from inspect import signature

import numpy as np
from sklearn.utils import check_array, check_scalar
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS
from sparsegpc._core.models.fixed_sites import certificate_of, gains_of_rows, point_gains
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.input.validation import refuse_overflow, validated_rows

# Largest relative difference of two bounds of the same data, due to site tolerances and rounding,
# which is large where the noise nearly vanishes.
SAME_BOUND = 1e-5


class FittedBounds:
    """Methods of fitted estimators that need rows, which the user passes again."""

    def certificate(self, X, y, sample_weight=None, method="auto", **params):
        """Return bounds on the distance to the posterior with an inducing point at every row.

        Parameters
        ----------
        X, y : array-like
            The data given to `fit`, which are not kept.
        sample_weight : array-like, float or None, default=None
            As in `fit`.
        method : str, default="auto"
            The upper bound on the log marginal likelihood: "cauchy-schwarz" at O(N M), "trace"
            (equation 3.4 of [1]_) at O(N M^2), "one-pass" at O(N^2 D), "two-moment" at O(N^2 M), or
            "conjugate-gradient" at O(N^2 D) for each iteration in addition, the tightest. "auto"
            takes the lowest one of the first two; up to 20 000 rows also of the next two. Where the
            points suffice, the last two methods also narrow the interval of the log marginal
            likelihood to about a tenth of a nat.
        **params : dict
            Other arguments of `fit`, as there.

        Returns
        -------
        certificate : Certificate
            The bounds in nats, and the largest errors of posterior means, variances and
            probabilities that they allow; ``print`` gives a summary. With several outputs, or one
            model per class, the bounds are sums. With Gaussian noise, and targets that were all
            observed, the bounds bracket the log marginal likelihood of the exact Gaussian process;
            with ``noise="gp"``, that with the learned noise.

            Otherwise the certificate compares with the dense Gaussian process at the same
            hyperparameters *and the same sites*. It bounds the error due to the inducing points,
            not that of the Gaussian approximation of the likelihood, for which no useful bound is
            known. With "polya-gamma" the upper bound applies to the dense Polya-Gamma bound at the
            same tilts.

        Raises
        ------
        ValueError
            If the data are not those of `fit`, or `method` is unknown.

        References
        ----------
        .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
           classification", 2021. "conjugate-gradient" is the method of Artemev, Burt, van der
           Wilk, 2021, with the log determinant of "two-moment".
        """
        if not isinstance(method, str) or method not in ("auto", *UPPER_BOUNDS):
            raise ValueError(
                f"method must be 'auto' or one of {tuple(UPPER_BOUNDS)}, got {method!r}"
            )
        check_is_fitted(self)
        _check_arguments("certificate", self, params)
        with single_threaded_blas():
            first, *others = [
                _certified(part, method)
                for part in self._models_of_rows(X, y, sample_weight, **params)
            ]
            return sum(others, first)

    def lower_bound(
        self, theta=None, X=None, y=None, sample_weight=None, eval_gradient=False, **params
    ):
        """Return the lower bound on the log marginal likelihood at the fitted inducing points.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,) or None, default=None
            Logarithms of the kernel's free hyperparameters. None means ``kernel_.theta``. The
            parameters of the noise or the likelihood keep their learned values.
        X, y : array-like or None, default=None
            Data for which to compute the bound. If both are None, the method returns
            `lower_bound_`; all other arguments must then have their defaults.
        sample_weight : array-like, float or None, default=None
            As in `fit`.
        eval_gradient : bool, default=False
            Whether to return the gradient w.r.t. `theta` too.
        **params : dict
            Other arguments of `fit`, as there.

        Returns
        -------
        bound : float
            In nats, for y in its original units, summed over outputs or the models of the classes.
            Minus infinity if `theta` is so extreme that the kernel matrix of the points cannot be
            factored.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if `eval_gradient`.

        Raises
        ------
        ValueError
            If X or y is needed and missing, `theta` has a wrong length, or `y` holds an unknown
            label.
        """
        check_is_fitted(self)
        _check_arguments("lower_bound", self, params)
        given = theta, X, y, sample_weight, *params.values()
        if all(value is None for value in given) and not eval_gradient:
            return self.lower_bound_
        if X is None or y is None:
            raise ValueError(
                "lower_bound needs both X and y if any argument is given, since the model keeps no "
                "rows of fit: call lower_bound(theta, X, y)"
            )
        theta = _checked_theta(theta, self.kernel_.theta)
        with single_threaded_blas():
            models = self._models_of_rows(X, y, sample_weight, **params)
            return _sum_of_bounds(models, theta, eval_gradient)

    def truncate(self, n_inducing, X, y, sample_weight=None, **params):
        """Return the model on the first inducing points only, without learning again.

        Hyperparameters, noise and likelihood stay as they are; posterior and bound are those of the
        smaller model.

        Parameters
        ----------
        n_inducing : int
            Between 1 and the number of points of this model.
        X, y : array-like
            The data given to `fit`, which are not kept.
        sample_weight : array-like, float or None, default=None
            As in `fit`.
        **params : dict
            Other arguments of `fit`, as there.

        Returns
        -------
        model : estimator
            Fitted. Its ``lower_bounds_``, ``history_``, ``growth_`` and counts are those of this
            model.

        Raises
        ------
        ValueError
            If `n_inducing` is out of range, the number of distinct rows of X differs from that of
            `fit`, or the classifier consists of a model for each class.

        Notes
        -----
        Cost O(N m^2) for N rows and m points; with a likelihood other than the Gaussian several
        times that, as the sites are solved for again.
        """
        check_is_fitted(self)
        _check_arguments("truncate", self, params)
        _check_one_model("truncate", self)
        n_present = len(self.inducing_points_)
        check_scalar(n_inducing, "n_inducing", numbers.Integral, min_val=1, max_val=n_present)
        with single_threaded_blas():
            (part,) = self._models_of_rows(X, y, sample_weight, **params)
            n_rows, n_fitted = len(part.model.weight), self._posterior.functions[0].n_rows
            if n_rows != n_fitted:
                raise ValueError(
                    f"X must have the {n_fitted} distinct rows of positive weight that fit had, "
                    f"got {n_rows}: give the data of fit"
                )
            evaluation = part.solved(posterior=self._posterior.truncated(n_inducing))
        smaller = copy(self)
        smaller._store_posterior(evaluation, part.model, part.offset)
        smaller.inducing_points_ = self.inducing_points_[:n_inducing]
        smaller.converged_ = self.converged_ and evaluation.converged
        if self.inducing_indices_ is not None:
            smaller.inducing_indices_ = self.inducing_indices_[:n_inducing]
        return smaller

    def point_gains(self, X, y, sample_weight=None, candidates=None, **params):
        """Return what each inducing point adds to the bound, or what further points would add.

        The gain of a point is the bound with it minus the bound without it, in nats, at the same
        hyperparameters and sites. Gains do not add up: of two points that are close together, each
        gains little.

        Parameters
        ----------
        X, y : array-like
            The data given to `fit`, which are not kept.
        sample_weight : array-like, float or None, default=None
            As in `fit`.
        candidates : array-like of shape (n_candidates, n_features) or None, default=None
            Rows to try as further inducing points, each by itself.
        **params : dict
            Other arguments of `fit`, as there.

        Returns
        -------
        gains : ndarray of shape (n_points,) or (n_candidates,)
            Those of `inducing_points_`, or of the candidates.

        Raises
        ------
        ValueError
            If the data are not those of `fit`, or the candidates have other columns, or the
            classifier consists of a model for each class.

        Notes
        -----
        Cost O(N M (M + C)) for N rows, M points and C candidates, about that of an evaluation of
        the bound. With `point_cost` a fit removes the points that gain less.
        """
        check_is_fitted(self)
        _check_arguments("point_gains", self, params)
        _check_one_model("point_gains", self)
        if candidates is not None:
            candidates = validated_rows(self, candidates, reset=False)[:]
            refuse_overflow(candidates, "candidates")
        with single_threaded_blas():
            (part,) = self._models_of_rows(X, y, sample_weight, **params)
            evaluation = part.solved()
            _check_same_rows("point_gains", part, evaluation)
            if candidates is None:
                return point_gains(part.model, evaluation).gains()
            return gains_of_rows(part.model, evaluation, candidates)


def _certified(part, method):
    evaluation = part.solved()
    _check_same_rows("certificate", part, evaluation)
    return certificate_of(part.model, evaluation, method).shifted(part.offset)


def _sum_of_bounds(parts, theta, eval_gradient):
    """Return the sum of the bounds of all parts; `theta` (P,) joins their kernel parameters.

    With `eval_gradient`, return (bound, gradient). If a Cholesky factorisation fails, the bound is
    minus infinity and the gradient of that part zero.
    """
    bound, gradients, start = 0.0, [], 0
    for part in parts:
        n_params = part.model.kernel.n_params
        values = np.append(theta[start : start + n_params], part.theta[n_params:])
        start += n_params
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                solved = part.solved(values, wrt_theta=eval_gradient)
            bound += solved.elbo + part.offset
            gradient = solved.grad_theta
        except np.linalg.LinAlgError:
            bound, gradient = -np.inf, np.zeros_like(values)
        if eval_gradient:
            gradients.append(gradient[:n_params])
    return (bound, np.concatenate(gradients)) if eval_gradient else bound


def _check_arguments(name, estimator, params):
    """Raise TypeError if `params` holds an argument that the estimator's `fit` does not take."""
    for argument in params:
        if argument not in signature(estimator.fit).parameters:
            raise TypeError(
                f"{type(estimator).__name__}.{name}() got an unexpected keyword argument "
                f"{argument!r}: give arguments of fit"
            )


def _checked_theta(theta, learned):
    """Check parameters of the kernel, and return them; None means the `learned` ones."""
    if theta is None:
        return learned
    theta = check_array(
        theta, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="theta"
    )
    if theta.shape != learned.shape:
        raise ValueError(
            f"theta must have the shape {learned.shape} of kernel_.theta, got {theta.shape}: "
            "give the logarithms of the free hyperparameters"
        )
    return theta


def _check_one_model(method, estimator):
    """Raise ValueError if a fitted classifier has one model for each class."""
    n_models = len(estimator._fitted_estimators)
    if n_models > 1:
        raise ValueError(
            f"{method} takes one model, but this classifier has {n_models}, one "
            f"for each class: call {method} of the models in estimators_, with y == class as y"
        )


def _check_same_rows(method, part, evaluation):
    """Raise ValueError if the bound of a `ModelOfRows` differs from that of the data of `fit`."""
    bound, fitted = evaluation.elbo + part.offset, part.estimator.lower_bound_
    # Bounds near zero differ by 1e-9 nats through rounding.
    if abs(bound - fitted) <= max(part.model.tol, SAME_BOUND * abs(fitted), 1e-9):
        return
    converged = part.estimator.converged_
    unsettled = "" if converged else "; the fit did not converge, so fit again first"
    raise ValueError(
        f"{method} needs the data of fit, whose bound is {fitted:.6g}, but these rows, targets, "
        f"weights and noise have the bound {bound:.6g}: give the data of fit{unsettled}"
    )
