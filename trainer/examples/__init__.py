"""Training examples: tables in memory, streams from disk, and their manifest."""
