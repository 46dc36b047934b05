"""Extension of kfp.local: features that it lacks, and behaviour that differs from Vertex AI."""
