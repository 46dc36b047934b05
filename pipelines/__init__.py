"""The DAG, and what is done with it: compile, submit, watch."""
