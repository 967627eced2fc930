"""Linear algebra, quadrature and memory limits."""
