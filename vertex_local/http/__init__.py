"""HTTP server: connections, users, request bodies, and injected faults."""
