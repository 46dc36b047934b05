"""Predictions of a model for the rows of files, on this machine: `trainyard predict`."""
