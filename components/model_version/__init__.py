"""Versions of a model in the registry: which one exists, and which one serves."""
