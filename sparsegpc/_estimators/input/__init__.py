"""Checks of what users give, row by row."""
