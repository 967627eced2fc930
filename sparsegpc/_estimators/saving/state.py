"""Saved estimators: what a file holds of them, and the mark of the version that wrote it.

A file names public classes, kernels and arrays only: objects of private classes are kept as plain
parts, so that these classes may move and change. Whoever changes what an estimator or one of
`KINDS` keeps raises `FORMAT`, and files of another format are refused.
"""

from sparsegpc import likelihoods
from sparsegpc._core.bounds.collapsed import FunctionPosterior, RowSums
from sparsegpc._core.kernels import algebra, families
from sparsegpc._core.likelihoods import multiclass
from sparsegpc._core.minibatches.stochastic_model import StochasticState
from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.optimisers.adam import AdamMemory
from sparsegpc._estimators.kernels import adapters
from sparsegpc._estimators.noise.known import KnownPlan
from sparsegpc._estimators.noise.polynomial import (
    LearnedPolynomial,
    PolynomialBasis,
    PolynomialPlan,
)
from sparsegpc._estimators.noise.process import LearnedProcess, ProcessPlan
from sparsegpc._estimators.one_vs_rest import OneVsRestLink
from sparsegpc._estimators.saving.missing_files import explain_missing_files
from sparsegpc._version import __version__

FORMAT = 2
MARK, KIND = "_saved_by", "sparsegpc kind"
# What estimators keep beside numbers and arrays, by the names that files have for it. Likelihoods
# and kernels of users are saved as they are. Kernels of the core go by the names of their classes,
# which must not change as long as `FORMAT` does not.
KERNELS = {
    name: kind
    for module in (families, algebra)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and kind.__module__ == module.__name__
}
# By the names of their classes, but for those that have one of their own.
PUBLIC_LIKELIHOODS = {
    name: kind
    for name in likelihoods.__all__
    if issubclass(kind := getattr(likelihoods, name), likelihoods.Likelihood)
    and kind not in likelihoods.NAMES.values()
}
KINDS = {
    **PUBLIC_LIKELIHOODS,
    **likelihoods.NAMES,
    **{f"kernel {name}": kind for name, kind in KERNELS.items()},
    "kernel value": adapters.KernelValue,
    "kernel diagonal": adapters.KernelDiagonal,
    "adam": AdamMemory,
    "dirichlet": multiclass.DirichletTargets,
    "function posterior": FunctionPosterior,
    "known plan": KnownPlan,
    "learned polynomial": LearnedPolynomial,
    "learned process": LearnedProcess,
    "one against the rest": OneVsRestLink,
    "polynomial basis": PolynomialBasis,
    "polynomial plan": PolynomialPlan,
    "posterior": Posterior,
    "process plan": ProcessPlan,
    "row sums": RowSums,
    "stochastic state": StochasticState,
}
KIND_OF = {kind: name for name, kind in KINDS.items()}

explain_missing_files()


def saved_state(state):
    """Return what pickle, joblib, skops and copies take for the state of an estimator."""
    private = {name: packed(part) for name, part in state.items() if name.startswith("_")}
    return {**state, **private, MARK: {"version": __version__, "format": FORMAT}}


def restored_state(name, state):
    """Return what `saved_state` was given for an estimator of this name."""
    state = dict(state)
    refuse_other_formats(name, state.pop(MARK, None))
    private = {name: unpacked(part) for name, part in state.items() if name.startswith("_")}
    return {**state, **private}


def refuse_other_formats(name, mark):
    """Raise ValueError if an estimator was saved by a version that keeps other things of it.

    `mark` is what `saved_state` leaves in a file, or None.
    """
    if mark is not None and mark["format"] == FORMAT:
        return
    author = "an early version of sparsegpc, which left no mark of itself"
    if mark is not None:
        author = f"sparsegpc {mark['version']} (format {mark['format']})"
    raise ValueError(
        f"this {name} was saved by {author}, and sparsegpc {__version__} (format {FORMAT}) keeps "
        f"other things of a model: fit it again with {__version__}, or load it with the version "
        "that saved it"
    )


def packed(part):
    """Return a part of an estimator with objects of `KINDS` as dicts of what they hold."""
    name = KIND_OF.get(type(part))
    if name is not None:
        fields = part._asdict() if isinstance(part, tuple) else vars(part)
        return {KIND: name, **{field: packed(value) for field, value in fields.items()}}
    if type(part) in (list, tuple):
        return type(part)(map(packed, part))
    return part


def unpacked(part):
    """Return what `packed` was given."""
    if type(part) in (list, tuple):
        return type(part)(map(unpacked, part))
    if type(part) is not dict or KIND not in part:
        return part
    fields = {field: unpacked(value) for field, value in part.items() if field != KIND}
    kind = KINDS[part[KIND]]
    if issubclass(kind, tuple):
        return kind(**fields)
    restored = kind.__new__(kind)
    vars(restored).update(fields)
    return restored
