"""Comparison of a trained model with the default version and a simple model, and the verdict."""
