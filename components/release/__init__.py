"""Serving and promotion of a model version, with the way back when it fails."""
