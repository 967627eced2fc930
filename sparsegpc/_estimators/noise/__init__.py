"""Observation noise: a module for each kind, with its settings, its plan and the learned noise."""
