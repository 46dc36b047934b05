"""Models: versions, aliases and the folders of their artifacts."""
