"""Models at given hyperparameters: sites, posteriors and predictions."""
