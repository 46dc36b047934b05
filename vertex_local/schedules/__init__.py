"""Schedules: pipeline runs by the clock."""
