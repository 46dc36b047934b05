"""End of a run: teardown, summary, and a webhook on failure."""
