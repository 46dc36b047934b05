"""`trainyard check`: the whole path of a user's workload, tried on a few examples."""
