"""Parts that several steps use: the REST client, pages, texts, and a run's summary and report."""
