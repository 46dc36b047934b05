"""customJobs: each a cluster of processes or containers on this machine."""
