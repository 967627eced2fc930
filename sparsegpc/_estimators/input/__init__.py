"""Checks of rows, targets, labels and weights."""
