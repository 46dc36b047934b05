"""Metrics of predictions: their values, directions, and values on resampled examples."""
