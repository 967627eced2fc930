"""Steps after the search: missed functions, hidden effects, rougher kernels, other points."""
