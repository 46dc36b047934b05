"""Images: raw formats to examples."""
