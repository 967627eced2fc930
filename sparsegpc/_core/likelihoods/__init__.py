"""Observation models as makers of Gaussian sites."""
