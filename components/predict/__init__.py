"""A deployed model is asked what the model was asked offline, and must say the same."""
