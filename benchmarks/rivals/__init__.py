"""Prediction servers for comparison, as their manuals write them, with the same loaded model."""
