"""Predictions of fitted estimators."""
