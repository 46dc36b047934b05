"""Where runs execute: on Vertex AI, or in the service on this machine."""
