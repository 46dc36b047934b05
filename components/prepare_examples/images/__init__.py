"""Images: raw files to examples."""
