"""The graph of a pipeline: what its groups of tasks take and return, and what cannot be run."""
