"""Check that a deployed model repeats the offline predictions."""
