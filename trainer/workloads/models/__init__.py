"""Default models, and layers for models."""
