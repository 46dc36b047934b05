"""The spellings of a cluster file."""
