"""Raw files: where they come from, fetched and verified."""
