"""x, y and the rows of a call of fit, as arrays."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.columns import Array, is_text
from pipelines.projects.scripts.script_text import ScriptFault

SHOWN = "a DataFrame with the file's index, row numbers from 0, or records (a list of dicts)"


@dataclass(frozen=True)
class Input:
    """An input of a model: its key in a dict of inputs, its values, its columns' names."""

    name: str
    values: Array
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """The inputs that fit got as x: a tensor, a list of them, or a dict."""

    kind: str
    each: tuple[Input, ...]

    def only(self, rows: Any) -> "Inputs":
        """Return some of the rows."""
        return Inputs(self.kind, tuple(replace(own, values=own.values[rows]) for own in self.each))

    def _tensors(self, number: int) -> list[Any]:
        arrays = [own.values[:number] for own in self.each]
        texts = [array.astype(str) if is_text(array) else array for array in arrays]
        return list(map(keras.ops.convert_to_tensor, texts))

    def first(self, number: int) -> Any:
        """Return the first rows as fit got them."""
        tensors = self._tensors(number)
        if self.kind == "dict":
            return dict(zip((own.name for own in self.each), tensors, strict=True))
        return tensors if self.kind == "list" else tensors[0]

    def source(self, expressions: Sequence[str]) -> str:
        """Return the expression of inputs in the structure in which fit got them."""
        if self.kind == "dict":
            pairs = zip(self.each, expressions, strict=True)
            return f"{{{', '.join(f'{quoted(own.name)}: {made}' for own, made in pairs)}}}"
        return f"[{', '.join(expressions)}]" if self.kind == "list" else expressions[0]

    def of_model(self, model: Any) -> list[tuple[Input, Any]]:
        """Return the inputs in the order of a model's, each with its Keras tensor."""
        known = getattr(model, "inputs", None)
        known = known or [keras.KerasTensor(t.shape, t.dtype) for t in self._tensors(1)]
        struct = getattr(model, "_inputs_struct", None)
        if self.kind != "dict" or not hasattr(model, "_inputs_struct"):
            return list(zip(self.each, known, strict=True))
        keys = {id(t): key for key, t in struct.items()} if isinstance(struct, dict) else {}
        by_name = {own.name: own for own in self.each}
        return [(by_name[keys.get(id(tensor), tensor.name)], tensor) for tensor in known]


def inputs_of(x: Any) -> Inputs:
    """Return the inputs of a call of fit.

    Raises:
        ScriptFault: x is a data set, whose rows have no order that can be told.
    """
    if isinstance(x, Mapping):
        return Inputs("dict", tuple(_input(str(name), value) for name, value in x.items()))
    if isinstance(x, list | tuple) and not np.isscalar(x[0]):
        return Inputs("list", tuple(_input("", value) for value in x))
    if not hasattr(x, "shape") and not isinstance(x, list):
        raise ScriptFault(
            f"x is a {type(x).__name__}: give trainyard.fit the arrays that it is made of, x and y,"
            " texts as keras.ops.convert_to_tensor makes them, and batch_size=…"
        )
    return Inputs("tensor", (_input("", x),))


def _input(name: str, value: Any) -> Input:
    values = array_of(value)
    size = int(np.prod(values.shape[1:], dtype=int))
    own = [name or getattr(value, "name", "")] if size == 1 else []
    names = getattr(value, "columns", own if any(own) else [f"column {at}" for at in range(size)])
    return Input(name, values, tuple(map(str, names)))


def array_of(value: Any) -> Array:
    """Return an array of numbers or texts."""
    array = value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)
    if array.dtype.kind == "b":
        return array.astype(np.float32)
    if not is_text(array):
        return array
    flat = array.reshape(-1)
    if all(isinstance(item, int | float | np.number | np.bool_) for item in flat):
        return array.astype(np.float64)
    made = [
        item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in flat
    ]
    return np.array(made, dtype=object).reshape(array.shape)


def row_numbers(rows: Any, num_rows: int, columns: Mapping[str, Array]) -> Array:
    """Return the row of the file, from 0, of each row of x; `columns` are to find records in.

    Raises:
        ScriptFault: they are not told, or not as many as x has, or repeated.
    """
    if rows is None:
        raise ScriptFault(f"trainyard.fit needs rows=…, the file's rows in the order of x: {SHOWN}")
    if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
        numbers = _numbers_of(rows, columns)
    else:
        numbers = np.asarray(rows.index if hasattr(rows, "iloc") else rows).reshape(-1)
    if numbers.dtype.kind not in "iu":
        raise ScriptFault(f"rows has no row numbers but {numbers[:1].tolist()}: give {SHOWN}")
    if len(numbers) != num_rows or (numbers < 0).any():
        raise ScriptFault(
            f"x has {num_rows:,} rows, and rows {(numbers >= 0).sum():,} of the file: rows that are"
            " made, as by SMOTE, are no rows of the file; give fit the file's rows, and"
            " class_weight, or layers that change them, such as keras.layers.GaussianNoise"
        )
    if (repeated := np.bincount(numbers) > 1).any():
        raise ScriptFault(
            f"rows has {repeated.argmax():,} several times, and a workload has a row once: give"
            " class_weight or sample_weight instead"
        )
    return numbers


def _numbers_of(records: Sequence[Mapping[str, Any]], columns: Mapping[str, Array]) -> Array:
    """Return the row of the file that has each record's values; -1 for none."""
    # A column in which no record is found is written in another form, such as $1,234.50.
    names = [
        name
        for name in columns
        if name in records[0]
        and not {_key(row[name]) for row in records}.isdisjoint(map(_key, columns[name]))
    ]
    by_key: dict[Any, list[int]] = defaultdict(list)
    keys = list(zip(*(map(_key, columns[name]) for name in names), strict=True))
    for number in reversed(range(len(keys))):
        by_key[keys[number]].append(number)
    own = (tuple(_key(record[name]) for name in names) for record in records)
    return np.array([by_key[key].pop() if by_key.get(key) else -1 for key in own], dtype=int)


def _key(value: Any) -> Any:
    """Return a value so that a number and its text are the same."""
    text = "" if value is None else str(value).strip()
    try:
        return "" if np.isnan(float(text)) else float(text)
    except ValueError:
        return text
