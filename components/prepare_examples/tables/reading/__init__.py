"""Reading of tables: CSV, Parquet, and the parts of files that workers read."""
