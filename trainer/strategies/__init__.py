"""Drivers of the train step: synchronous on the devices of all replicas, or asynchronous."""
