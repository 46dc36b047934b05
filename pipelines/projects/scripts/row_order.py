"""The order in which a script has the rows of its file: numbers that shuffles and splits give."""

import functools
import importlib.util
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.projects.scripts.rows import Array, row_numbers

REPEAT = tf.data.Dataset.repeat


def record_orders(script: str, orders: list[Array]) -> None:
    """Add the numbers of the rows to `orders` whenever a script shuffles or splits its rows.

    Data sets of TensorFlow keep their order, since they shuffle elements without numbers, and have
    each row once; `num_repeats` has how often they repeat it.
    """
    _record_shuffles(orders)
    tf.data.Dataset.shuffle = lambda self, *_, **__: self
    tf.data.Dataset.repeat = _once
    for name, record in (("sklearn", _record_splits), ("pandas", _record_frames)):
        if name in script and importlib.util.find_spec(name):  # it may be in a comment only
            record(orders)


def _once(data: Any, count: Any = None, **_: Any) -> Any:
    once: Any = REPEAT(data, 1)
    once.num_repeats = max(1, int(count or 1))
    return once


def num_repeats(data: Any) -> int:
    """Return how often a data set repeats each row in an epoch; 1 if it does without end."""
    before = map(num_repeats, data._inputs()) if isinstance(data, tf.data.Dataset) else ()
    return max(before, default=1) * getattr(data, "num_repeats", 1)


def orders_among(values: Iterable[Any]) -> list[Array]:
    """Return the numbers of rows among a script's variables: of pandas, indices and masks."""
    arrays = [value if isinstance(value, np.ndarray) else row_numbers(value) for value in values]
    vectors = [array for array in arrays if array is not None and array.ndim == 1]
    return [
        *(np.flatnonzero(mask) for mask in vectors if mask.dtype.kind == "b"),
        *(numbers for numbers in vectors if numbers.dtype.kind in "iu" and _are_distinct(numbers)),
    ]


def _are_distinct(numbers: Array) -> bool:
    return len(np.unique(numbers)) == len(numbers) and numbers.min(initial=0) >= 0


def _record_shuffles(orders: list[Array]) -> None:
    """Have the generators of NumPy, and Python's own shuffle, record their permutations."""

    class Recorded:
        def _order(self, size: int) -> Array:
            order: Array = self.random(size).argsort()  # type: ignore[attr-defined]
            orders.append(order)
            return order

        def permutation(self, x: Any, *_: Any, **__: Any) -> Array:
            return self._order(x) if np.ndim(x) == 0 else np.asarray(x)[self._order(len(x))]

        def shuffle(self, x: Any, *_: Any, **__: Any) -> None:
            order = self._order(len(x))
            x[:] = x[order] if isinstance(x, np.ndarray) else [x[at] for at in order]

    module: Any = np.random
    make, generator = module.default_rng, type("Generator", (Recorded, np.random.Generator), {})
    module.default_rng = lambda seed=None: generator(make(seed).bit_generator)
    module.RandomState = type("RandomState", (Recorded, np.random.RandomState), {})
    module.mtrand._rand = state = module.RandomState()
    module.permutation, module.shuffle = state.permutation, state.shuffle
    random.shuffle = state.shuffle


def _record_splits(orders: list[Array]) -> None:
    """Have scikit-learn record which rows its splits have: equal rows cannot be told apart."""
    module: Any = importlib.import_module("sklearn.model_selection")
    split = module.train_test_split

    @functools.wraps(split)
    def record(*arrays: Any, **named: Any) -> Any:
        *parts, train, test = split(*arrays, _numbers(arrays[0], orders), **named)
        orders.extend([test, train])
        return parts

    module.train_test_split = record


def _numbers(rows: Any, orders: list[Array]) -> Array:
    """Return the numbers of rows: as pandas has them, or of a part of the same size, or all."""
    numbers = row_numbers(rows)
    if numbers is not None:
        return numbers
    size = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    parts = (order for order in reversed(orders) if len(order) == size)
    return next(parts, np.arange(size))


def _record_frames(orders: list[Array]) -> None:
    """Have pandas record the numbers of rows which lose them: as arrays, or numbered anew."""
    pandas: Any = importlib.import_module("pandas")

    def recorded(method: Any) -> Any:
        @functools.wraps(method)
        def record(self: Any, *arguments: Any, **named: Any) -> Any:
            numbers = np.asarray(self.index)
            if not any(np.array_equal(numbers, order) for order in orders):
                orders.append(numbers)
            return method(self, *arguments, **named)

        return record

    for kind in (pandas.DataFrame, pandas.Series):
        for name in ("reset_index", "to_numpy", "__array__"):
            setattr(kind, name, recorded(getattr(kind, name)))
        kind.values = property(recorded(kind.values.fget))
