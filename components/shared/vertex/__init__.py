"""Client of Vertex AI's REST API, with retries, resource names and views of its resources."""
