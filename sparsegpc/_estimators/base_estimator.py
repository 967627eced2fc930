"""Base class of all estimators: versions in saved files, and validation of rows to predict."""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass

from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from sparsegpc._estimators.docstrings import describe_inherited
from sparsegpc._estimators.input.validation import validated_rows
from sparsegpc._version import __version__

# Parameters whose values may be passed by mistake as the first argument, which is the kernel.
NOT_THE_KERNEL = ("likelihood", "noise")


def with_parameters(cls):
    """Declare the parameters of an estimator as fields of its class, those of its bases first.

    Its docstring then describes them in the same order, and the attributes of the bases, too.
    """
    bases = [base for base in cls.__mro__[:0:-1] if "__dataclass_fields__" in vars(base)]
    cls = dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    describe_inherited(cls, bases)
    return cls


class Estimator(BaseEstimator):
    """A scikit-learn estimator whose saved state holds the version of sparsegpc."""

    # The `LogTransform` of the columns that the kernel sees, None if it sees them as they are.
    _transform = None

    def __getstate__(self):
        return {**super().__getstate__(), "_sparsegpc_version": __version__}

    def __setstate__(self, state):
        """Restore a saved state; warn as scikit-learn does if another version saved it."""
        state = dict(state)
        version = state.pop("_sparsegpc_version", "unknown")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=f"sparsegpc {__version__}",
                    original_sklearn_version=f"sparsegpc {version}",
                ),
                stacklevel=2,
            )
        super().__setstate__(state)

    def _validate_params(self):
        """Validate the parameters, and name the right one for a value passed as the kernel."""
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            kernel = getattr(self, "kernel", None)
            for name in NOT_THE_KERNEL:
                if isinstance(kernel, str) and kernel in self._names_for(name):
                    raise InvalidParameterError(
                        f"kernel must be a kernel or the name of one, got {kernel!r}, a value of "
                        f"another parameter: pass {name}={kernel!r}"
                    ) from error
            raise

    def _names_for(self, parameter):
        """Return the strings that a parameter can be, except "auto", which several can be."""
        constraints = self._parameter_constraints.get(parameter, ())
        names = [rule.options for rule in constraints if isinstance(rule, StrOptions)]
        return set().union(*names) - {"auto"}

    @property
    def _fitted_estimators(self):
        """The fitted models of which the estimator consists: itself, or one for each class."""
        return getattr(self, "estimators_", None) or [self]

    def _check_rows(self, X):
        """Validate rows at which to predict, and return an array or a `RowSource`."""
        check_is_fitted(self)
        return validated_rows(self, X, reset=False)


@contextmanager
def all_or_nothing(estimator):
    """Restore the attributes of the estimator if the block raises an exception."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise
