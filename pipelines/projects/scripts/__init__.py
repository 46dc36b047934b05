"""Scripts that train with Keras, unedited: run up to `fit`, and written down as a workload."""
