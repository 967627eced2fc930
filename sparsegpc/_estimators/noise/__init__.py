"""Observation noise: a file for each kind, with its settings, its plan, and what is learned."""
