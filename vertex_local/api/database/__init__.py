"""The service's SQLite file: opened with care, and with room to delete on a full disk."""
