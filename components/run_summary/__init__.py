"""Result of a run: `summary.json` and `report.html`, read from its PipelineJob."""
