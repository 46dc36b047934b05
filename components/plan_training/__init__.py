"""From a cluster's shape and a training configuration to Vertex AI's worker pools."""
