"""Output of `prepare_examples`: the folder, its manifest, and quarantined rows."""
