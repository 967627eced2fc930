"""Periods with which targets repeat, from which searches over periodic kernels begin."""
