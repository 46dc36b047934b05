"""Where runs go: Vertex AI, or the service on this machine."""
