"""Input files: their division into parts, and the readers of a part."""
