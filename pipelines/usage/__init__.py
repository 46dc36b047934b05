"""The CPU and memory of a training job's replicas over time, as a person sees them."""
