"""The REST API: requests, resources in the store, long-running operations."""
