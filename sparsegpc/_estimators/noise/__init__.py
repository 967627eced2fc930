"""Observation noise: each kind as users ask for it, in the model, and as it was learned."""
