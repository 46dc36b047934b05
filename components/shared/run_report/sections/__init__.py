"""What the sections of a run's report show, for `report.html`."""
