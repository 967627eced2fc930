"""Estimators that learn from minibatches and streams."""
