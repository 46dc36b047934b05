"""Places that execute runs: Vertex AI, and the service on this machine."""
