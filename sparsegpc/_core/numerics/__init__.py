"""Memory, BLAS, factorisations and quadrature."""
