"""Statistics of examples, with schema, anomalies, drift and report."""
