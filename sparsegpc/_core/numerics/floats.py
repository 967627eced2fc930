"""Numerical constants."""

import numpy as np

# Half of EPSILON is the largest relative rounding error, and TINY the smallest normal number.
EPSILON, TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny
# In the log density of a normal distribution.
LOG_2PI = np.log(2.0 * np.pi)
