"""Start from the last fit of an estimator, if its columns and its kernel are the same."""

from itertools import chain

import numpy as np

from sparsegpc._core.rows.merged_rows import find_rows
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.kernels.kernel_trees import kernel_structure, walk
from sparsegpc._estimators.kernels.named_kernels import ROUGHER, has_name
from sparsegpc.kernels import MainEffects


def is_warm(estimator):
    """Return whether a fit starts from the last one."""
    return estimator.warm_start and hasattr(estimator, "_theta")


def has_several_kernels(estimator):
    """Return whether the last fit averages over kernels, all of which a fit has to learn again."""
    return getattr(estimator, "kernel_weights_", None) is not None


def last_choice(estimator, choice):
    """Return a `KernelChoice` with the kernel, effects and transform of the last fit."""
    _check_same_columns(estimator)
    choice = choice._replace(transform=estimator._transform)
    if choice.transform is not None and not estimator.log_transform:
        raise ValueError(
            "warm_start=True keeps the transform of the columns of the last fit, got "
            "log_transform=False: set warm_start=False to start afresh"
        )
    if not choice.is_named:
        return choice
    kernels = list(walk(estimator.kernel_))
    if any(isinstance(kernel, MainEffects) for kernel in kernels):
        choice = choice._replace(main_effects=True)
    if choice.kernel is None and estimator._may_be_rough:
        for name in chain(*ROUGHER):
            if any(has_name(kernel, name) for kernel in kernels):
                choice = choice._replace(kernel=name)
    is_by_column = any(np.ndim(getattr(kernel, "length_scale", 0.0)) for kernel in kernels)
    if choice.length_scales == "auto":
        choice = choice._replace(length_scales="tied" if is_by_column else "common")
    return choice


def check_same_model(problem):
    """Raise ValueError if the last fit had another kernel structure or other parameters."""
    before = problem.estimator.kernel_
    if kernel_structure(problem.kernel) != kernel_structure(before):
        raise ValueError(
            f"warm_start=True needs the kernel structure of the last fit: it had "
            f"{before} with {_free(before)} free, kernel is {problem.kernel} with "
            f"{_free(problem.kernel)} free; set warm_start=False to start afresh"
        )
    n_kernel = problem.model.kernel.n_params
    before = len(problem.estimator._theta) - n_kernel
    now = len(problem.hyperparameters.theta) - n_kernel
    if before != now:
        raise ValueError(
            "warm_start=True needs the parameters of the likelihood and the noise of the last fit: "
            f"it had {before} parameters beside those of the kernel, this one has {now}; set "
            "warm_start=False to start afresh"
        )


def check_same_noise(builder):
    """Raise ValueError if the last fit had other noise or another number of outputs.

    `builder` is a `RegressionBuilder` with the plan of this fit.
    """
    estimator, n_outputs = builder.estimator, len(builder.variance)
    same = builder.plan.is_like(estimator._plan) and n_outputs == len(
        estimator._posterior.functions
    )
    same = same and builder.is_censored == estimator._is_censored
    if not same or estimator._unit_choice() != estimator._last_unit_choice:
        raise ValueError(
            "warm_start=True needs the kind of noise, normalize_y and the number of outputs of "
            "the last fit, and event if it had event; set warm_start=False to start afresh"
        )


def last_points(problem, selector):
    """Return the points of the last fit, or None if the parameters do not allow them."""
    estimator = problem.estimator
    points = estimator._posterior.Z
    if selector.fixed or len(points) > selector.n_points or estimator.point_cost > 0.0:
        return None
    Z_noise = None if estimator._noise is None else estimator._noise.points
    return InducingPoints(points, find_rows(points, problem.model.X), Z_noise)


def _check_same_columns(estimator):
    """Raise ValueError if the last fit had other columns."""
    n_columns = estimator.inducing_points_.shape[1]
    if n_columns != estimator.n_features_in_:
        raise ValueError(
            f"warm_start=True needs the columns of the last fit: it had {n_columns}, X has "
            f"{estimator.n_features_in_}; set warm_start=False to start afresh"
        )


def _free(kernel):
    return [h.name for h in kernel.hyperparameters if not h.fixed] or "nothing"
