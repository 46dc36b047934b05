"""The exported model: written, loaded, measured and served."""
