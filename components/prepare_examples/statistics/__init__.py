"""What examples are like: statistics, schema, anomalies, drift, report."""
