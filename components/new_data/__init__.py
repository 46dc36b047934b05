"""New data: the files of a run's date, and what has changed since the promoted version."""
