"""CPU and memory of replicas over time; the supervisor imports it: standard library only."""
