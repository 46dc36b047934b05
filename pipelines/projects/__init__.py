"""Users' workloads: their folders, run.yaml, snapshots and requirements."""
