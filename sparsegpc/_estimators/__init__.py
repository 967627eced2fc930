"""Estimators for scikit-learn on top of the core."""
