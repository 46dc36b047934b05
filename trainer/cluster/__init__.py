"""The replicas of a job: who they are, and whether they are alive."""
