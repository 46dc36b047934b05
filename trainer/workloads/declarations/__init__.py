"""Declarations that workload files consist of; and their checks."""
