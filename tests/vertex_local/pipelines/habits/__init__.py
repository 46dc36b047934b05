"""Pipelines as other people write them, a function for each habit.

`EXPECTED` of each module says of each pipeline what the task displayed as "result" must return.
"""
