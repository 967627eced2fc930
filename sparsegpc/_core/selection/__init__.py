"""The choice of inducing points among the rows."""
