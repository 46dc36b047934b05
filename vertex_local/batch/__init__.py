"""batchPredictionJobs: the predictions of a model for the instances of files."""
