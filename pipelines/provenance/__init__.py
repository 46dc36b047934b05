"""Provenance: how a model version was made, and whether it can be made again."""
