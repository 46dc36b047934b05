"""HTTP server: connections, users and request bodies."""
