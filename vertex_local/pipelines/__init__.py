"""pipelineJobs: pipeline runs, each with a runner process."""
