"""Simple models, which a first model must beat: the best constant, a linear model, and trees."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import InputError
from trainer.workloads.base import Workload
from trainer.workloads.encoding.columns import linear_columns, split_columns

Array = NDArray[Any]
Predict = Callable[[Mapping[str, Any]], Array]

MAX_TREE_CATEGORIES = 255  # a limit of theirs


def has_columns(workload: Workload) -> bool:
    """Return whether a linear model can be fitted: the inputs are categories and numbers."""
    return bool(linear_columns(getattr(workload, "columns", ())))


def fit_linear(workload: Any, features: Mapping[str, Any], labels: Array) -> Predict:
    """Return the line of a table's default model: a linear regression, of classes a logistic one.

    The features are raw.
    """
    table = replace(workload, model=None)
    line = table.fit_line(features, labels)

    def predict(features: Mapping[str, Any]) -> Array:
        outputs = line.outputs(table.encode(features))
        return np.asarray(table.label.predictions(outputs, has_logits=True))

    return predict


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
