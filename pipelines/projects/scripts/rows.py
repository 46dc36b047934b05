"""x, y and the rows of a call of fit, as arrays."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from pipelines.projects.scripts.origins import Array, is_text
from pipelines.projects.scripts.script_text import ScriptFault

SHOWN = "a DataFrame with the file's index, row numbers from 0, or records (a list of dicts)"


def arrays_of(x: Any) -> Any:
    """Return x of a call of fit, a tensor or a structure of some, as arrays.

    Raises:
        ScriptFault: x is a data set, whose rows have no order that can be told.
    """
    if not all(hasattr(tensor, "shape") for tensor in keras.tree.flatten(x)):
        raise ScriptFault(
            f"x is a {type(x).__name__}: give trainyard.fit the arrays that it is made of, x and y,"
            " texts as keras.ops.convert_to_tensor makes them, and batch_size=…"
        )
    return keras.tree.map_structure(array_of, x)


def names_of(x: Any) -> list[list[str]]:
    """Return the names of the columns of each tensor in x."""
    return [_names(*pair) for pair in keras.tree.flatten_with_path(x)]


def _names(path: Sequence[Any], tensor: Any) -> list[str]:
    size = int(np.prod(tensor.shape[1:], dtype=int))
    name = next((key for key in path if isinstance(key, str)), getattr(tensor, "name", None))
    names = [name] if name and size == 1 else [f"column {at}" for at in range(size)]
    return [*map(str, getattr(tensor, "columns", names))]


def first(arrays: Any, number: int) -> Any:
    """Return the first rows of x as tensors."""
    cut = [own[:number] for own in keras.tree.flatten(arrays)]
    texts = [own.astype(str) if is_text(own) else own for own in cut]
    return keras.tree.pack_sequence_as(arrays, [*map(keras.ops.convert_to_tensor, texts)])


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
    texts = [item.decode(errors="replace") if isinstance(item, bytes) else item for item in flat]
    return np.array([*map(str, texts)], dtype=object).reshape(array.shape)


def row_numbers(rows: Any, num_rows: int, columns: Mapping[str, Array]) -> Array:
    """Return the row of the file, from 0, of each row of x; `columns` are to find records in.

    Raises:
        ScriptFault: they are not told, or not as many as x has, or repeated.
    """
    if rows is None:
        raise ScriptFault(f"trainyard.fit needs rows=…, the file's rows in the order of x: {SHOWN}")
    if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
        numbers = _find_records(rows, columns)
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


def _find_records(records: Sequence[Mapping[str, Any]], columns: Mapping[str, Array]) -> Array:
    """Return the row of the file that has each record's values; -1 for none."""
    keys = {name: [*map(_key, values)] for name, values in columns.items() if name in records[0]}
    own = {name: [_key(record[name]) for record in records] for name in keys}
    # A column in which no record is found is written in another form, such as $1,234.50.
    names = [name for name in keys if not {*own[name]}.isdisjoint(keys[name])]
    rows = defaultdict(list)
    for number, key in enumerate(zip(*(keys[name] for name in names), strict=True)):
        rows[key].append(number)
    alike = [rows[key] for key in zip(*(own[name] for name in names), strict=True)]
    return np.array([same.pop(0) if same else -1 for same in alike], dtype=int)


def _key(value: Any) -> Any:
    """Return a value so that a number and its text are the same."""
    text = "" if value is None else str(value).strip()
    try:
        return "" if np.isnan(float(text)) else float(text)
    except ValueError:
        return text
