"""Learning of hyperparameters, points and their number."""
