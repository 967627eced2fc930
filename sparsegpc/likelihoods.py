"""Likelihoods, and base classes of user-defined likelihoods.

Pass an instance to the parameter ``likelihood`` of a classifier or a generalised regressor. A name,
such as "softmax" or "poisson", selects the likelihood with its default settings.
"""

import numpy as np
from sklearn.base import BaseEstimator

from sparsegpc._core.likelihoods import multiclass
from sparsegpc._core.likelihoods.base import (
    Expectation,
    LabelLikelihood,
    Likelihood,
    Sites,
    SiteState,
)
from sparsegpc._core.likelihoods.binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._core.likelihoods.counts import NegativeBinomial, Poisson
from sparsegpc._core.likelihoods.multiclass import LogisticSoftmax, Softmax
from sparsegpc._core.likelihoods.ordinal import OrdinalLogit
from sparsegpc._core.likelihoods.positive import Gamma, LogNormal, Weibull
from sparsegpc._core.likelihoods.responses import Peak, ResponseLikelihood
from sparsegpc._core.likelihoods.student_t import StudentT

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "ConditionalPolyaGamma",
    "DirichletTargets",
    "Expectation",
    "Gamma",
    "LabelLikelihood",
    "Likelihood",
    "LogNormal",
    "LogisticSoftmax",
    "NegativeBinomial",
    "OrdinalLogit",
    "Peak",
    "Poisson",
    "PolyaGammaLogit",
    "ResponseLikelihood",
    "SiteState",
    "Sites",
    "Softmax",
    "StudentT",
    "Weibull",
]


class DirichletTargets(multiclass.DirichletTargets, BaseEstimator):
    __doc__ = multiclass.DirichletTargets.__doc__

    def __init__(self, concentration=0.01):
        super().__init__(concentration)


NAMES = {
    "bernoulli-logit": BernoulliLogit,
    "bernoulli-probit": BernoulliProbit,
    "conditional-polya-gamma": ConditionalPolyaGamma,
    "polya-gamma": PolyaGammaLogit,
    "softmax": Softmax,
    "logistic-softmax": LogisticSoftmax,
    "ordinal-logit": OrdinalLogit,
    "dirichlet": DirichletTargets,
}

RESPONSES = {
    "poisson": Poisson,
    "negative-binomial": NegativeBinomial,
    "gamma": Gamma,
    "weibull": Weibull,
    "log-normal": LogNormal,
}

# Those among which the bound decides, for each one that "auto" means by the kind of target.
ALTERNATIVES = {"gamma": ("log-normal", "weibull"), "weibull": ("log-normal",)}


def resolve_likelihood(likelihood, n_classes):
    """Return the likelihood selected by the parameter `likelihood` of a classifier."""
    if isinstance(likelihood, str):
        if likelihood == "auto":
            likelihood = "bernoulli-logit" if n_classes == 2 else "softmax"
        return NAMES[likelihood]()
    return likelihood


def resolve_response(likelihood, y, event):
    """Return the likelihood selected by the parameter `likelihood` of a generalised regressor.

    "auto" means one that suits the kind of target; a fit may prefer one of its `ALTERNATIVES`.
    Targets `y` are those of positive weight.
    """
    if isinstance(likelihood, str):
        if likelihood == "auto" and event is None:
            are_counts = bool((y == np.floor(y)).all())
            likelihood = "negative-binomial" if are_counts else "gamma"
        elif likelihood == "auto":
            has_upper_limits = np.any(np.asarray(event) == -1)
            likelihood = "log-normal" if has_upper_limits else "weibull"
        return RESPONSES[likelihood]()
    return likelihood
