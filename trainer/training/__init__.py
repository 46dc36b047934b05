"""Training: the step, its variables, evaluation, checkpoints and results."""
