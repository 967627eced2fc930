"""Linear algebra, medians and constants of double precision."""
