"""The replicas of a job: their roles and addresses, and which of them are alive."""
