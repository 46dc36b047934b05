"""Vertex AI's REST API on this machine: pipelines, jobs, models and endpoints, without a cloud."""
