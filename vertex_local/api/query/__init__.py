"""Lists of resources: filters, order and pages, evaluated by SQLite."""
