"""Choice of the rows on which all candidates of a search are compared."""

import numpy as np


def spread_rows(y, n_rows, is_label):
    """Return sorted indices of `n_rows` rows, evenly spaced in the order of y.

    Of labels, every class has one row at least, so there can be a few rows more.

    Parameters
    ----------
    y : ndarray of shape (N,) or (N, n_outputs)
    n_rows : int
    is_label : bool
    """
    keys = y.reshape(len(y), -1).T[::-1]
    firsts = np.empty(0, dtype=np.intp)
    if is_label:
        _, firsts, keys = np.unique(y, return_index=True, return_inverse=True)
        keys = keys.reshape(1, -1)
    places = ((np.arange(n_rows) + 0.5) * (len(y) / n_rows)).astype(np.intp)
    return np.union1d(np.lexsort(keys)[places], firsts)
