"""Parts that several steps use: the REST client, pages and texts."""
