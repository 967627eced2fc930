"""Choices of the kernel, the noise and the likelihood by the bound."""
