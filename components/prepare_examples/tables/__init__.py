"""Tables: rows of CSV, Parquet or BigQuery to examples."""
