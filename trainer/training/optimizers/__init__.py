"""Optimizers on the flat vector of weights, and learning rate schedules."""
