"""Learning of the hyperparameters, the inducing points and their number."""
