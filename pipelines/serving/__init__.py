"""Model versions made and asked by hand: uploads to the registry, predictions for files."""
