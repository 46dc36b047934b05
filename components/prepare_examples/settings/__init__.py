"""Settings of prepare_examples, and the dates in the names of files."""
