"""Check of a trained model in its own prediction server, before it is deployed."""
