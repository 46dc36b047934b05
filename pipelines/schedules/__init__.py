"""Schedules, kept equal to schedule files."""
