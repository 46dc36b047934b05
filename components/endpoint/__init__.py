"""The endpoint that serves a model: reused when it exists."""
