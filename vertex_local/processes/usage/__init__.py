"""CPU and memory of replicas over time. Standard library only: supervisors import it."""
