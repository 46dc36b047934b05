"""Lists of resources: filters, order and pages, carried out by SQLite."""
