"""From scikit-learn's kernels to the core's."""
