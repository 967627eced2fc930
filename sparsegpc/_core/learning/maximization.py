"""Maximise the bound of a model over its hyperparameters.

Each evaluation solves for the sites, starting from those of an earlier evaluation, and with several
functions less exactly while steps gain much. By the envelope theorem the gradient is the one at
fixed sites.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.likelihoods.base import LabelLikelihood
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.optimisers.bfgs import BFGSHessian, maximize_bfgs
from sparsegpc._core.optimisers.lbfgsb import maximize_lbfgsb

# Typical curvatures of the bound, in nats per row. That in the logarithm of a noise variance is a
# half or somewhat less at the maximum.
KERNEL_CURVATURE, LIKELIHOOD_CURVATURE = 0.02, 0.5
# Where labels have less entropy than this, in nats per row, as with a class that is rarer than one
# in fifty, the bound depends less on the kernel, in proportion to the entropy. With the typical
# curvature, steps would be so short that the search ends too early.
LEAST_ENTROPY = 0.1
# The Hessian must be positive even if a part of the rows has labels of one class only.
LEAST_SHARE = 1e-3
# A hyperparameter is at a bound if its logarithm is this close; searches end much closer.
AT_BOUND = 1e-3
# L-BFGS-B ends after this many small gains in a row.
PATIENCE = 2


class Iterate(NamedTuple):
    """An evaluation for the optimisers: ``x`` (P,), the objective there and its gradient (P,).

    The optimisers call this a point; everywhere else, points are inducing points.
    """

    x: np.ndarray
    value: float
    gradient: np.ndarray
    evaluation: Evaluation | None


def typical_hessian(model, n_params):
    """Return a guess of the `BFGSHessian` of the bound in nats per row."""
    n_likelihood = model.likelihood.n_params * len(model.targets)
    numbers = n_params - n_likelihood, n_likelihood
    curvatures = _share_of_entropy(model) * KERNEL_CURVATURE, LIKELIHOOD_CURVATURE
    return BFGSHessian(np.repeat(curvatures, numbers))


def _share_of_entropy(model):
    """Return the ratio of the entropy of labels to `LEAST_ENTROPY`, from `LEAST_SHARE` to one."""
    is_of_labels = isinstance(model.likelihood, LabelLikelihood)
    if not is_of_labels or model.likelihood.has_fixed_sites:
        # The densities of numbers, those of Dirichlet regression among them, have no such scale.
        return 1.0
    entropy = -model.constant_bound() / model.total_weight
    return float(np.clip(entropy / LEAST_ENTROPY, LEAST_SHARE, 1.0))


def maximize(model, first, settings, *, hessian=None, to_beat=-np.inf, relative_tol=0.0):
    """Maximise the objective over theta, and return the `Maximum`; its best is an `Evaluation`.

    `first` is an `Evaluation` with its gradient. `hessian`, which is updated, is the `BFGSHessian`
    of the bound in nats per row; None uses the line search of L-BFGS-B. Quasi-Newton steps end
    early if they are not expected to come near `to_beat`, the objective reached elsewhere, and when
    the next step is expected to gain less than `relative_tol` of what the search has gained. Raises
    `LinAlgError` if the gradient at `first` is not finite.
    """
    progress = settings.progress

    def iterate(evaluation):
        return Iterate(evaluation.theta, evaluation.objective, evaluation.grad_theta, evaluation)

    def function(x, near, expected=0.0):
        """Return the `Iterate` at x, where sites are solved for from those of another one."""
        tol, states = model.site_tol(expected), near.evaluation.states
        return iterate(progress.evaluate(model, x, first.points, states, tol=tol))

    problem = function, iterate(first), settings.bounds
    limits = {"max_iter": settings.max_iter, "tol": model.tol}
    limits["is_stopped"] = lambda: progress.stopped
    if hessian is None:
        found = maximize_lbfgsb(*problem, patience=PATIENCE, **limits)
    else:
        found = maximize_bfgs(
            *problem,
            hessian,
            scale=model.total_weight,
            # On other rows the prior has another weight, or none, so the Hessian must not learn it.
            known=model.prior,
            to_beat=to_beat,
            relative_tol=relative_tol,
            **limits,
        )
    progress.optimizer_iterations += found.n_iter
    return found._replace(best=found.best.evaluation)
