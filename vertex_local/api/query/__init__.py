"""Filters, order and masks of lists; SQLite evaluates the first two."""
