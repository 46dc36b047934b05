"""One module per workload: its features, model and metrics."""
