"""Result of a run, read from its PipelineJob: `summary.json`, `report.html`, and the webhook."""
