"""Targets of runs: Vertex AI, or the service on this machine."""
