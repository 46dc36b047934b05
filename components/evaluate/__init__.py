"""Evaluation of a trained model on the test split: metrics, verdict and report."""
