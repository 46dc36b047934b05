"""Execution of Beam pipelines, and Beam's flags."""
