"""The training itself: steps, weights, checkpoints and results."""
