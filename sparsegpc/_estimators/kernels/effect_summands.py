"""Find the summands of a kernel that describe effects of columns."""

from sklearn.gaussian_process import kernels as sk

from sparsegpc._estimators.kernels.sklearn_kernels import ADDITIVE
from sparsegpc.kernels import Columns


def effect_summands(kernel, columns, factor=1.0):
    """Yield the kernels of `ADDITIVE` among the summands of a kernel.

    Each comes after its constant factor and before the array of columns that it sees.
    """
    if type(kernel) in ADDITIVE:
        yield factor, kernel, columns
    elif type(kernel) is Columns:
        yield from effect_summands(kernel.kernel, columns[list(kernel.columns)], factor)
    elif type(kernel) is sk.Sum:
        yield from effect_summands(kernel.k1, columns, factor)
        yield from effect_summands(kernel.k2, columns, factor)
    elif type(kernel) is sk.Product:
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is sk.ConstantKernel:
                yield from effect_summands(other, columns, factor * constant.constant_value)
                return
