"""A model at given hyperparameters: sites, posterior, predictions."""
