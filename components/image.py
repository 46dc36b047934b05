"""The base image of every Python component."""

IMAGE = "trainyard-image:python"
"""A placeholder: the compiler replaces it by the image that was built for the run."""
