"""Learning: from the parameters of an estimator to a fit by the core."""
