"""Tables: CSV, Parquet or BigQuery rows to examples."""
