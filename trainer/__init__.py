"""What runs on every replica of a training job, and in the prediction server."""
