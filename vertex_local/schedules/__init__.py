"""Schedules of pipeline runs."""
