"""Local implementation of Vertex AI's REST API: pipelines, schedules, jobs, models, endpoints."""

from typing import Any

__version__ = "0.1.0"

Json = dict[str, Any]  # a JSON object
