"""Spellings of a cluster."""
