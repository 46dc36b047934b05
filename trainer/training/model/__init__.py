"""A Keras model with its weights in one flat vector, and what it is trained towards."""
