"""Local implementation of Vertex AI's REST API: pipelines, schedules, jobs, models, endpoints."""

from vertex_local.rules import Json as Json

__version__ = "0.1.0"
