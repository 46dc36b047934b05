"""`report.html` of a run: one page that needs no network, from summary, evaluation and logs."""
