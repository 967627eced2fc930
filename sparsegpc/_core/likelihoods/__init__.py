"""Likelihoods, and the Gaussian sites that represent them."""
