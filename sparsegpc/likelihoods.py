"""Likelihoods, and base classes of user-defined likelihoods.

Pass an instance to the parameter ``likelihood`` of a classifier. A name, such as "softmax", selects
the likelihood with its default settings.
"""

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
from sparsegpc._core.likelihoods.multiclass import LogisticSoftmax, Softmax

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "ConditionalPolyaGamma",
    "DirichletTargets",
    "Expectation",
    "LabelLikelihood",
    "Likelihood",
    "LogisticSoftmax",
    "PolyaGammaLogit",
    "SiteState",
    "Sites",
    "Softmax",
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
    "dirichlet": DirichletTargets,
}


def resolve_likelihood(likelihood, n_classes):
    """Return the likelihood selected by the parameter `likelihood` of a classifier."""
    if isinstance(likelihood, str):
        if likelihood == "auto":
            likelihood = "bernoulli-logit" if n_classes == 2 else "softmax"
        return NAMES[likelihood]()
    return likelihood
