"""Predictions that also use the nearest training rows."""
