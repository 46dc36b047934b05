"""A trained model is measured on the test split, judged, and shown."""
