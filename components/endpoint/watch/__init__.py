"""Watch of an endpoint: its logged requests against the training data, and over time."""
