"""Sections on the content of an evaluation.json, in the page of an evaluation and of a run."""
