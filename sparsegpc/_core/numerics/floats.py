"""Constants of double precision."""

import numpy as np

# Half of EPSILON is the largest relative rounding error, and TINY the smallest normal number.
EPSILON, TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny
