"""Estimators with scikit-learn's interface; `forest` has them."""
