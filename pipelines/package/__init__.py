"""The compiled pipeline: the file, its registry and the image of its steps."""
