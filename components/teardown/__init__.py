"""Cancels and deletes everything a run made, except the model version that it promoted."""
