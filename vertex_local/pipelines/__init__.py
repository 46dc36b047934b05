"""pipelineJobs: pipeline runs, each in a process of its own."""
