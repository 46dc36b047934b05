"""Predictions of endpoints, and their comparison with the offline ones."""
