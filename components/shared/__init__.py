"""What is no step: the REST client, pages, texts, and the summary and report of a run."""
