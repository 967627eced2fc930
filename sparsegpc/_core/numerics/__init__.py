"""Linear algebra, memory limits and constants of double precision."""
