"""Sections of a run's report, each a function from the content to HTML, "" without its facts."""
