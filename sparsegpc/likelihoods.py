"""Likelihoods of class labels, for the parameter ``likelihood`` of `SparseGPClassifier`.

Their names as strings stand for instances with default settings.
"""

from sparsegpc._binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._multiclass import DirichletTargets, LogisticSoftmax, Softmax

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "ConditionalPolyaGamma",
    "DirichletTargets",
    "LogisticSoftmax",
    "PolyaGammaLogit",
    "Softmax",
]

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
