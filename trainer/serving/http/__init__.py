"""The prediction server: HTTP connections, routes, and batches of concurrent requests."""
