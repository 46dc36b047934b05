"""Commands of training jobs and cluster files."""
