"""Training jobs without a pipeline."""
