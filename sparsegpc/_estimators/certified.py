"""Certificates of fitted models, and the number of inducing points that follows from them."""

import numbers
from dataclasses import replace

import numpy as np
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.bounds.certificates import OF_SITES, certify
from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.bounds.upper import UPPER_BOUNDS
from sparsegpc._core.learning.growth import grow
from sparsegpc._core.learning.inference import settle
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS
from sparsegpc._core.selection.choices import Chosen
from sparsegpc._estimators.input.validation import Range
from sparsegpc._estimators.selector import make_choice

# A pass over the kernel matrix is worth its time up to this many rows.
ONE_PASS_ROWS = 20_000
# Bounds of the same data agree to this, relative to their size, and to this in single precision.
SAME_BOUND, SAME_SINGLE_BOUND = 1e-6, 1e-4
# Less than this, in nats, is rounding whatever the bound.
SMALLEST_BOUND = 1e-9


class CertifiedMixin:
    """``n_inducing="auto"``, and what certificates have in common.

    Beside an estimator of `SparseGPBase`.
    """

    _growth_constraints = {
        "n_inducing": [Range(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "certificate_tol": [Range(numbers.Real, 0, None, closed="neither")],
        "max_inducing": [Range(numbers.Integral, 1, None, closed="left")],
    }

    def _check_auto(self):
        if self.n_inducing == "auto" and not isinstance(self.selector, str):
            raise ValueError(
                "n_inducing='auto' needs a selector by name, which can choose any number of "
                f"points, got selector of type {type(self.selector).__name__}: give a "
                "name, or a number of points"
            )

    def _search(self, problem, rng, warm=False, starts=None):
        if self.n_inducing != "auto":
            return super()._search(problem, rng, warm, starts)
        rows = problem.rows

        def fit(n_points, starts):
            choose = make_choice(
                self.selector,
                n_points,
                0.0,
                rows.X,
                rows.weight,
                rng,
                n_functions=problem.model.n_functions,
                name="max_inducing",
            )
            first = warm and starts is None
            return super(CertifiedMixin, self)._search(problem, rng, first, starts, choose)

        growth = grow(
            fit,
            lambda evaluation: certificate_of(problem.model, evaluation).gap_per_row,
            problem.model,
            starts=starts,
            tol=self.certificate_tol,
            cap=min(self.max_inducing, len(rows.X)),
        )
        for step in growth.history:
            step["lower_bound"] += problem.offset
        self.growth_, self.growth_end_ = growth.history, growth.end
        return growth.result

    def _certify(self, model, theta, offset, method):
        """Return the `Certificate` of the fitted model from a core model of the rows of fit."""
        points = Chosen(self.inducing_points_, None, None)
        states = self._learned_states(model)
        evaluation = settle(model, theta, points, states, self.jitter_, wrt_theta=False)
        self._check_same_rows(evaluation.evidence + offset, model.tol)
        return certificate_of(model, evaluation, method).shifted(offset)

    def _check_same_rows(self, bound, tol):
        """Refuse other data than those of `fit`, whose bound they cannot have."""
        share = SAME_BOUND if self.working_dtype == "float64" else SAME_SINGLE_BOUND
        allowed = max(tol, share * abs(self.lower_bound_), SMALLEST_BOUND)
        if abs(bound - self.lower_bound_) > allowed:
            if not self.converged_:
                raise ValueError(
                    f"these rows have the bound {bound:.6g} where lower_bound_ is "
                    f"{self.lower_bound_:.6g}: either they are not those of fit, or the fit, which "
                    "did not converge, left its sites unsettled; see its warning, and fit again"
                )
            raise ValueError(
                "a certificate is about the data of fit, but for these rows, targets, weights and "
                f"noise the bound is {bound:.6g}, where lower_bound_ is {self.lower_bound_:.6g}: "
                "give what was given to fit"
            )


def check_method(method):
    """Refuse the name of an upper bound that does not exist."""
    if not isinstance(method, str) or method not in ("auto", *UPPER_BOUNDS):
        raise ValueError(
            f"method must be 'auto' or one of {tuple(UPPER_BOUNDS)}, got {method!r}: 'auto' takes "
            "the best of those that are fast"
        )


def features_at(model, evaluation):
    """Return the features of the rows at an evaluation, in double precision."""
    return model.row_features(
        model.kernel,
        model.split(evaluation.theta)[0],
        evaluation.chosen.Z,
        jitter=evaluation.jitter,
        attempts=JITTER_ATTEMPTS,
        dtype=np.float64,
    )


def certificate_of(model, evaluation, method="auto"):
    """Return the `Certificate` of all functions together, at their sites.

    Where the likelihood is not Gaussian the exact posterior is the dense one of the same sites, and
    all bounds are shifted by what makes their lower bound the model's own.
    """
    sites_only = not model.likelihood.has_fixed_sites
    methods = (method,)
    if method == "auto":
        methods = ("trace", "whitened", "cauchy-schwarz")
        if len(model.weight) <= ONE_PASS_ROWS:
            methods = (*methods, "one-pass")
    features = features_at(model, evaluation)
    outputs = [(solution.sites, solution.posterior) for solution in evaluation.solutions]
    if sites_only:
        outputs = [
            (sites, collapse(features, sites, model.slack, posterior.prior_mean))
            for sites, posterior in outputs
        ]
    first, *others = certify(features, outputs, model.slack, methods, n_rows=model.total_weight)
    total = sum(others, first)
    if sites_only:
        total = replace(total, of=OF_SITES)
    return total.shifted(float(evaluation.evidence - total.lower_bound))
