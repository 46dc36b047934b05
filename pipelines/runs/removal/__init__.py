"""Removes old runs of this machine, and what they have left."""
