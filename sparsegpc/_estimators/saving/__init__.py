"""What files hold of fitted estimators."""
