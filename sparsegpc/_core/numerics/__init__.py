"""Linear algebra, quadrature, memory limits and constants of double precision."""
