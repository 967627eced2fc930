"""The mathematics, on NumPy and SciPy only: it knows neither scikit-learn nor users' input."""
