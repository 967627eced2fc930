"""Settings of this package's kernels that the benchmarks share."""

# A constant times RBF with one length scale for all columns: what the papers and the peers have.
ONE_LENGTH_SCALE = {"length_scales": "common", "main_effects": False}
