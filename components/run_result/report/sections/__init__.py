"""Content of the sections of a run's report, which `report.html` shows."""
