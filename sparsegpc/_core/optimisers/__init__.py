"""Optimisers: steps, line searches and extrapolation, for functions of any kind."""
