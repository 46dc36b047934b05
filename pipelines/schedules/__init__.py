"""Schedules, made equal to what schedule files say."""
