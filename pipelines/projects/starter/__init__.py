"""`trainyard new`: the folder of a workload, written from its data."""
