"""Configuration of a run: its settings, where they come from, and their checks."""
