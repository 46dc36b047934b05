"""The base image of every Python component."""

IMAGE = "trainyard-image:python"
"""A placeholder, which the compiler replaces with the image of the run."""
