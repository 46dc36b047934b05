"""The service's SQLite database, with space in reserve to delete on a full disk."""
