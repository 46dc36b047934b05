"""From a cluster and a training configuration to Vertex AI's worker pools."""
