"""Resources of Vertex AI: find, show, change and delete them."""
