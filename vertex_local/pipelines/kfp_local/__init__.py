"""What kfp.local does not offer, or does otherwise than Vertex AI."""
