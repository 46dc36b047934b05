"""Result of a run: `summary.json`, read from its PipelineJob."""
