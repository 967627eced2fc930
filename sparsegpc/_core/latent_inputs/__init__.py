"""Gaussian processes whose inputs are latent: the Bayesian GP-LVM."""
