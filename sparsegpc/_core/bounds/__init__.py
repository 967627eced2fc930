"""Lower and upper bounds on the log marginal likelihood, their derivatives, and certificates."""
