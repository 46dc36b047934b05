"""The exported model: written, loaded and served."""
