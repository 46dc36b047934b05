"""Settings of a training job."""
