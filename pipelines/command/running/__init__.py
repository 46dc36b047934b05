"""Commands of pipeline runs."""
