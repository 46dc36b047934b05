"""Pipeline runs: submit, follow, summarize, resume, remove."""
