"""One folder per pipeline step: the plain functions, and the KFP component that calls them."""
