"""Dimensions of `python -m benchmarks.growth`."""
