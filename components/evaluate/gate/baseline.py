"""Simple models, which a first model must beat: the best constant, a linear model, and trees."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import InputError
from trainer.workloads.base import Workload
from trainer.workloads.encoding.columns import split_columns

Array = NDArray[Any]
Predict = Callable[[Mapping[str, Any]], Array]

# A category with more values would have too few examples of each; of trees, a limit of theirs.
MAX_CATEGORIES, MAX_TREE_CATEGORIES = 1000, 255


def has_columns(workload: Workload) -> bool:
    """Return whether a linear model can be fitted: the inputs are categories and numbers."""
    return bool(_columns(workload))


def fit_linear(workload: Workload, features: Mapping[str, Any], labels: Array) -> Predict:
    """Return a linear regression, or a logistic one for classes, on a model's encoded inputs.

    The features are raw; `workload.columns` encode them.
    """
    inputs = _inputs(workload, features)
    predict = workload.label.fit_linear(inputs, labels, len(workload.labels))
    return lambda features: predict(_inputs(workload, features))


def fit_trees(workload: Workload, features: Mapping[str, Any], labels: Array) -> Predict:
    """Return gradient-boosted trees by scikit-learn; InputError if they cannot learn the labels."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if labels.ndim > 1 or len(np.unique(labels)) == 1:
        raise InputError("gradient-boosted trees need one label with several values")
    inputs, is_category = tree_inputs(workload, features)
    options = {"random_state": 0, "categorical_features": is_category}
    if workload.label.is_number:
        number = HistGradientBoostingRegressor(**options).fit(inputs, labels)
        return lambda features: np.asarray(number.predict(tree_inputs(workload, features)[0]))
    trees = HistGradientBoostingClassifier(**options).fit(inputs, labels)
    known = np.eye(len(workload.labels))[trees.classes_]
    return lambda features: trees.predict_proba(tree_inputs(workload, features)[0]) @ known


def tree_inputs(workload: Workload, features: Mapping[str, Any]) -> tuple[Array, list[bool]]:
    """Return numbers, NaN where missing, and categories [examples, n], and which are categories."""
    pieces, is_category = [], []
    columns = {column.name: column for column in getattr(workload, "columns", ())}
    for name, computed in split_columns([*columns.values()], features).items():
        column, raw = columns[name], features.get(name)
        is_raw = column.kind == "number" and getattr(raw, "dtype", "") == "float32"
        values = np.asarray(raw) if is_raw else computed
        pieces.append(values.reshape(len(values), -1).astype(np.float32))
        has_few = column.kind == "category" and column.size <= MAX_TREE_CATEGORIES
        is_category += [has_few] * pieces[-1].shape[1]
    return np.concatenate(pieces, axis=1), is_category


def _inputs(workload: Workload, features: Mapping[str, Any]) -> Array:
    """Return categories as zeros and ones, numbers, and a one for the intercept [examples, n]."""
    columns = {column.name: column for column in _columns(workload)}
    pieces = [
        np.eye(columns[name].size, dtype=np.float32)[values] if values.ndim == 1 else values
        for name, values in split_columns([*columns.values()], features).items()
    ]
    return np.concatenate([*pieces, np.ones((len(pieces[0]), 1))], axis=1, dtype=np.float32)


def _columns(workload: Workload) -> list[Any]:
    return [
        column
        for column in getattr(workload, "columns", ())
        if column.kind == "number" or (column.kind == "category" and column.size <= MAX_CATEGORIES)
    ]
