"""What a training job is told."""
