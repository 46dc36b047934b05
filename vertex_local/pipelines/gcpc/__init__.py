"""Google Cloud Pipeline Components, carried out by this service."""
