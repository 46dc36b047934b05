"""Groups of processes that end together, and never outlive the service."""
