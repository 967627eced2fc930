"""Rules of numerical integration."""

import numpy as np

# Nats below the maximum at which an integrand is negligible.
NEGLIGIBLE = 45.0


def legendre_panels(edges, n_nodes):
    """Return nodes and weights (J,) of Gauss-Legendre rules on the panels between E edges.

    Each of the E - 1 panels has `n_nodes` nodes.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    half = np.diff(edges)[:, None] / 2.0
    middle = np.asarray(edges)[:-1, None] + half
    return (middle + half * nodes).ravel(), (half * weights).ravel()


def normal_rule(n_nodes):
    """Return nodes and weights (J,) of the Gauss-Hermite rule for a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, weights / np.sqrt(2.0 * np.pi)


def narrowed(low, high, values):
    """Return the ends of n intervals that are narrowed to where an integrand is not negligible.

    `values` (J, n) are the logarithms of the integrands at J equally spaced places from `low` to
    `high`, (n,) each. The new intervals extend to the next place on either side. Also return how
    many steps from place to place they have, shape (n,).
    """
    places = np.linspace(0.0, 1.0, len(values))
    is_relevant = values > values.max(axis=0) - NEGLIGIBLE
    first = np.maximum(is_relevant.argmax(axis=0) - 1, 0)
    last = np.minimum(len(values) - is_relevant[::-1].argmax(axis=0), len(values) - 1)
    width = high - low
    return low + width * places[first], low + width * places[last], last - first
