"""Covariance functions and their derivatives."""
