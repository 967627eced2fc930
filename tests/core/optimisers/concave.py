"""Concave functions whose maximum is known."""

from types import SimpleNamespace

import numpy as np


class Concave:
    """A quadratic less fourth powers, both highest at the same place, where the value is zero."""

    def __init__(self, seed, shape, quartic=0.0, singular=False):
        rng = np.random.RandomState(seed)
        n = int(np.prod(shape))
        A = rng.randn(n, n - singular)
        self.hessian = A @ A.T + (not singular) * np.eye(n)
        self.shape, self.quartic = shape, quartic
        self.top, self.n_evaluations, self.n_products = rng.randn(*shape), 0, 0

    def evaluate(self, x):
        self.n_evaluations += 1
        d = (x - self.top).ravel()
        value = -0.5 * d @ self.hessian @ d - self.quartic * (d**4).sum()
        gradient = -self.hessian @ d - 4.0 * self.quartic * d**3
        return SimpleNamespace(x=x, value=value, gradient=gradient.reshape(self.shape))

    def product(self, point, direction):
        self.n_products += 1
        d = (point.x - self.top).ravel()
        flat = self.hessian @ direction.ravel() + 12.0 * self.quartic * d**2 * direction.ravel()
        return flat.reshape(self.shape)

    def newton(self, gradient):
        return np.linalg.solve(self.hessian, gradient.ravel()).reshape(self.shape)
