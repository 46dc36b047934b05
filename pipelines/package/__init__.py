"""Packages: compiled pipelines, their registry, and the image of their steps."""
