"""Google Cloud Pipeline Components, executed with requests to this service."""
