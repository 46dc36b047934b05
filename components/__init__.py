"""One folder per pipeline step: the plain functions, and the KFP component that calls them."""

# The base image of every Python component: a placeholder, which the compiler replaces with the
# image of the run.
IMAGE = "trainyard:python"
