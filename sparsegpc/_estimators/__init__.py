"""The estimators of scikit-learn over the core, one idea per file."""
