"""Batch prediction: the predictions of a model for the rows of files, written as files."""
