"""Vertex AI's REST API, and requests to it that may be repeated."""
