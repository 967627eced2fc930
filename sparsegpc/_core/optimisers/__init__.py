"""General optimisers, and extrapolation of fixed-point iterations."""
