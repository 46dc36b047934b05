"""The result of a run: `summary.json`, written by its exit task, and the same facts on request."""
