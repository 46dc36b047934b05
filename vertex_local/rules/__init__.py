"""Rules of Vertex AI for which a client needs no service: it imports nothing else of ours."""
