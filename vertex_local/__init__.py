"""Local implementation of Vertex AI's REST API: pipelines, schedules, jobs, models, endpoints."""

from typing import Any

Json = dict[str, Any]  # a JSON object
