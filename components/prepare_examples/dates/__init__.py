"""Dates of a run: in the names of its files, and of its rows."""
