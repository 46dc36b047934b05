"""Models in the registry, their versions and aliases."""
