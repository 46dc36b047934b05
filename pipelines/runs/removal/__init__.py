"""Removal of old runs of this machine and their files."""
