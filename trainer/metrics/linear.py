"""Logistic regressions, simple models that others must beat."""

from collections.abc import Callable

import numpy as np

from trainer.metrics.statistics import Array

RIDGE = 1.0
_MAX_ROUNDS, _SMALL_STEP = 50, 1e-2


def fit_logistic(
    inputs: Array,
    truth: Array,
    activate: Callable[[Array], Array],
    *,
    bound: float,
) -> Callable[[Array], Array]:
    """Return the model of inputs [examples, n] with the least penalized cross-entropy.

    Each round is a Newton step with an upper bound of the Hessian, `bound` times the inputs' Gram
    matrix, which is inverted once. Böhning, "Multinomial logistic regression algorithm", 1992.
    """
    inverse = np.linalg.inv(bound * (inputs.T @ inputs) + RIDGE * np.eye(inputs.shape[1]))
    weights = np.zeros((inputs.shape[1], truth.shape[1]))
    for _ in range(_MAX_ROUNDS):
        missing = truth - activate(inputs @ weights.astype(np.float32))
        step = inverse @ (inputs.T @ missing.astype(np.float32) - RIDGE * weights)
        weights += step
        if np.abs(step).max() < _SMALL_STEP:
            break
    return lambda inputs: activate(inputs @ weights)


def sigmoid(values: Array) -> Array:
    """Return a probability for each value."""
    return 1 / (1 + np.exp(-np.clip(values, -50, 50)))


def softmax(values: Array) -> Array:
    """Return the probabilities of classes [examples, classes]."""
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
