"""Local implementation of Vertex AI's REST API: pipelines, schedules, jobs, models, endpoints."""
