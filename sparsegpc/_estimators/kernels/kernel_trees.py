"""Walks through scikit-learn's kernels, which are trees of sums, products and nested kernels."""

from sklearn.gaussian_process import kernels as sk

from sparsegpc.kernels import Columns, MainEffects, OrthogonalAdditive

# Kernels that are sums of functions of few columns each.
ADDITIVE = (MainEffects, OrthogonalAdditive)


def walk(kernel):
    """Yield `kernel` and all kernels of which it consists."""
    yield kernel
    for value in kernel.get_params(deep=False).values():
        if isinstance(value, sk.Kernel):
            yield from walk(value)


def walk_with_columns(kernel, columns):
    """Yield (part, columns): as `walk`, each with the array of columns that it sees.

    The parts of a user's own kernel are left out, since the columns that they see are unknown.
    """
    yield kernel, columns
    if isinstance(kernel, Columns):
        columns = columns[list(kernel.columns)]
    elif not isinstance(kernel, sk.KernelOperator | sk.Exponentiation):
        return
    for value in kernel.get_params(deep=False).values():
        if isinstance(value, sk.Kernel):
            yield from walk_with_columns(value, columns)


def kernel_structure(kernel):
    """Return the structure that two kernels must share to exchange hyperparameters."""
    parts = [type(part).__name__ for part in walk(kernel)]
    free = [(h.name, h.n_elements) for h in kernel.hyperparameters if not h.fixed]
    return parts, free


def summand_indices(kernel):
    """Return the indices in theta of the hyperparameters of each summand, a list of lists.

    It is empty if the kernel is no sum.
    """
    if not isinstance(kernel, sk.Sum):
        return []
    found, start = [], 0
    for summand in _summands(kernel):
        found.append(list(range(start, start + summand.n_dims)))
        start += summand.n_dims
    return found


def _summands(kernel):
    """Yield the summands of a kernel in the order of theta, itself if it is no sum."""
    if isinstance(kernel, sk.Sum):
        yield from _summands(kernel.k1)
        yield from _summands(kernel.k2)
    else:
        yield kernel


def split_white(kernel):
    """Split a kernel into a kernel without WhiteKernel summands, and a list of those summands.

    The first is None if all summands are WhiteKernels. A WhiteKernel in a product is not split off.
    """
    if type(kernel) is sk.WhiteKernel:
        return None, [kernel]
    if type(kernel) is not sk.Sum:
        return kernel, []
    (left, whites), (right, more) = split_white(kernel.k1), split_white(kernel.k2)
    if not whites and not more:
        return kernel, []
    rest = left + right if left is not None and right is not None else left or right
    return rest, [*whites, *more]


def effect_summands(kernel, columns, factor=1.0):
    """Yield the summands of a kernel that are of `ADDITIVE` or of a single column.

    Each comes after its constant factor and before the array of columns that it sees.
    """
    if type(kernel) in ADDITIVE:
        yield factor, kernel, columns
    elif type(kernel) is Columns:
        group = columns[list(kernel.columns)]
        found = list(effect_summands(kernel.kernel, group, factor))
        if not found and len(group) == 1:
            found = [(factor, kernel.kernel, group)]
        yield from found
    elif type(kernel) is sk.Sum:
        yield from effect_summands(kernel.k1, columns, factor)
        yield from effect_summands(kernel.k2, columns, factor)
    elif type(kernel) is sk.Product:
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is sk.ConstantKernel:
                yield from effect_summands(other, columns, factor * constant.constant_value)
                return
