"""Likelihoods of class labels, for the parameter ``likelihood`` of `SparseGPClassifier`.

Their names as strings stand for instances with default settings.
"""

from sklearn.base import BaseEstimator

from sparsegpc._core.likelihoods import multiclass
from sparsegpc._core.likelihoods.base import LabelLikelihood
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
    "LabelLikelihood",
    "LogisticSoftmax",
    "PolyaGammaLogit",
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
    """Return the likelihood that a parameter of that name stands for."""
    if isinstance(likelihood, str):
        if likelihood == "auto":
            likelihood = "bernoulli-logit" if n_classes == 2 else "softmax"
        return NAMES[likelihood]()
    if not hasattr(likelihood, "slacks"):
        raise ValueError(
            f"likelihood must say which bounds it admits, got {likelihood!r} without slacks: use a "
            f"name, one of {sorted(NAMES)}, or a class of sparsegpc.likelihoods"
        )
    return likelihood
