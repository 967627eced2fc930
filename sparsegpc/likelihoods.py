"""Likelihoods of class labels, for the parameter ``likelihood`` of `SparseGPClassifier`.

Their names as strings stand for instances with default settings.
"""

from sklearn.base import BaseEstimator

from sparsegpc import _multiclass
from sparsegpc._binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._likelihoods import LabelLikelihood
from sparsegpc._multiclass import LogisticSoftmax, Softmax

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "ConditionalPolyaGamma",
    "DirichletTargets",
    "LabelLikelihood",
    "LogisticSoftmax",
    "PolyaGammaLogit",
    "Softmax",
]


class DirichletTargets(_multiclass.DirichletTargets, BaseEstimator):
    __doc__ = _multiclass.DirichletTargets.__doc__

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
    """Return the likelihood that a parameter of that name stands for."""
    if isinstance(likelihood, str):
        if likelihood == "auto":
            likelihood = "bernoulli-logit" if n_classes == 2 else "softmax"
        return NAMES[likelihood]()
    return likelihood
