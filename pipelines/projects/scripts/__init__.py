"""Scripts that train with Keras: run up to `trainyard.fit`, and written down as a workload."""
