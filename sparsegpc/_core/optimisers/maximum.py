"""What an optimiser returns."""

from typing import NamedTuple


class Maximum(NamedTuple):
    """The best point that a maximisation found, and how the search ended.

    ``converged`` is False if a limit ended the search. ``n_iter`` counts the iterations. ``left``
    is set by `maximize_lbfgs` and Newton's method: what a further step would gain, zero for less
    than the tolerance, and infinity for a gain that is not known.
    """

    best: object
    converged: bool
    n_iter: int
    left: float = 0.0
