"""Linear and logistic regression, with a penalty that is chosen by folds."""

from collections.abc import Callable
from typing import Any

import numpy as np

from trainer.metrics.statistics import Array

# Each begins where the one before it ended.
PENALTIES = np.logspace(6, -4, 9)
NUM_FOLDS = 3
MAX_FOLDED = 3_000  # rows of all folds
_MAX_ROUNDS, _SMALL_STEP = 50, 1e-3
_LEAST_VARIANCE = 1e-6  # of an input that the rows of a fold lack


def fit_linear(
    inputs: Array,
    truth: Array,
    activate: Callable[[Array], Array],
    *,
    bound: float,
    weights: Array | None = None,
) -> Array:
    """Return the weights [n + 1, outputs] of a linear model of inputs [examples, n], or its logits.

    The last row is the constant, which has no penalty; the others have that of inputs with unit
    variance. Of PENALTIES it is the one with the least
    squared error on rows that are left out, in folds; the largest, which leaves little but the
    constant, if that is not higher by more than a standard error: chance is not to be learnt.

    Args:
        inputs: of the examples, in any order that has nothing to do with the label.
        truth: what the activated outputs shall be, [examples, outputs].
        activate: the identity, sigmoid or softmax.
        bound: of the derivative of `activate`.
        weights: of the examples; None: all 1.
    """
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1, dtype=np.float64)
    weights = np.ones(len(inputs)) if weights is None else weights / weights.mean()

    def fit(rows: Any, penalties: Array, start: Array) -> list[Array]:
        """Return the weights for each penalty.

        Each round is a Newton step with an upper bound of the Hessian, `bound` times the inputs'
        Gram matrix, which is inverted once: a single round for a linear regression. Böhning,
        "Multinomial logistic regression algorithm", 1992.
        """
        known, wanted, weighed = inputs[rows], truth[rows], weights[rows, None]
        gram, path = bound * (known.T @ (weighed * known)), [start]
        penalized = np.append(np.maximum(known[:, :-1].var(axis=0), _LEAST_VARIANCE), 0.0)
        for penalty in penalties:
            inverse = np.linalg.inv(gram + np.diag(penalty * penalized))
            fitted = path[-1]
            for _ in range(_MAX_ROUNDS):
                missing = weighed * (wanted - activate(known @ fitted))
                step = inverse @ (known.T @ missing - penalty * penalized[:, None] * fitted)
                fitted = fitted + step
                if np.abs(step).max() <= _SMALL_STEP * np.abs(fitted).max():
                    break
            path.append(fitted)
        return path[1:]

    nothing = np.zeros((inputs.shape[1], truth.shape[1]))
    rows = np.arange(min(len(inputs), MAX_FOLDED))
    errors = np.zeros((len(PENALTIES), len(rows)))
    for left in (rows[fold::NUM_FOLDS] for fold in range(NUM_FOLDS)):
        path = fit(np.delete(rows, left), PENALTIES, nothing)
        for number, fitted in enumerate(path):
            wrong = truth[left] - activate(inputs[left] @ fitted)
            errors[number, left] = weights[left] * (wrong**2).sum(axis=1)
    best = int(errors.mean(axis=1).argmin())
    gains = errors[0] - errors[best]
    if gains.mean() <= gains.std() / np.sqrt(len(rows)):
        best = 0
    return fit(slice(None), PENALTIES[[best]], path[best])[0]
