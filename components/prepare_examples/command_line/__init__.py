"""`python -m components.prepare_examples`: its flags and its output."""
