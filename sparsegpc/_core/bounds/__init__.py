"""Bounds from below and above, their adjoints, and what follows from them."""
