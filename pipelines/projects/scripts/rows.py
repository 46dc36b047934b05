"""The rows that a script hands to `fit`, as arrays."""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from pipelines.projects.scripts.script_text import ScriptFault

Array = NDArray[Any]
MOST_BATCHES = 20_000
MOST_BYTES = 200_000_000
SEVERAL_LABELS = (
    "fit gets {} labels, and a workload has one: give fit one of them as y, and keras.Model the"
    " output for it"
)


@dataclass(frozen=True)
class RecordedInput:
    """An input of a recorded model.

    Attributes:
        name: its key in a dict of inputs; else "".
        columns: the names of its columns, if pandas has them.
    """

    name: str
    values: Array
    columns: tuple[str, ...] = ()

    def column(self, number: int) -> Array:
        """Return a column as [rows]."""
        return self.values.reshape(len(self.values), -1)[:, number]

    @property
    def num_columns(self) -> int:
        """The number of values in a row."""
        return int(np.prod(self.values.shape[1:], dtype=int))


@dataclass(frozen=True)
class RecordedRows:
    """The rows that reached `fit`.

    Attributes:
        kind: "tensor", "dict" or "list": how `fit` got the inputs.
        label: what `fit` got as y.
        index: the numbers of the rows, as pandas has them.
    """

    inputs: tuple[RecordedInput, ...]
    kind: str
    label: Array
    weights: Array | None = None
    batch_size: int | None = None
    index: Array | None = None

    @property
    def num_labels(self) -> int:
        """The number of labels of which a row may have several, or none; 1 if it has one."""
        is_one = self.label.ndim < 2 or self.label.shape[1] < 2  # noqa: PLR2004
        return 1 if is_one or (self.label.sum(axis=1) == 1).all() else self.label.shape[1]

    @property
    def class_numbers(self) -> Array:
        """The label as numbers of classes, which may be one-hot."""
        is_one_hot = self.label.ndim > 1 and self.label.shape[1] > 1
        return self.label.argmax(axis=1) if is_one_hot else self.label.reshape(-1)

    def as_given(self, indices: Any) -> Any:
        """Return some rows in the structure in which `fit` got them."""
        arrays = [
            keras.ops.convert_to_tensor(
                recorded.values[indices].astype(str)
                if recorded.values.dtype.kind == "O"
                else recorded.values[indices]
            )
            for recorded in self.inputs
        ]
        if self.kind == "dict":
            return {
                recorded.name: array for recorded, array in zip(self.inputs, arrays, strict=True)
            }
        return arrays if self.kind == "list" else arrays[0]

    def source(self, expressions: Sequence[str]) -> str:
        """Return the expression of inputs in the structure in which `fit` got them."""
        if self.kind == "dict":
            items = ", ".join(
                f"{json.dumps(recorded.name)}: {expression}"
                for recorded, expression in zip(self.inputs, expressions, strict=True)
            )
            return f"{{{items}}}"
        return f"[{', '.join(expressions)}]" if self.kind == "list" else expressions[0]


def inputs_of(model: Any, rows: RecordedRows) -> list[tuple[RecordedInput, Any]]:
    """Return the recorded inputs that a model takes, in its order, each with its Keras tensor."""
    known = getattr(model, "inputs", None)
    if not known:
        arrays = [recorded.values for recorded in rows.inputs]
        kinds = ["string" if array.dtype.kind == "O" else array.dtype.name for array in arrays]
        shapes = [(None, *array.shape[1:]) for array in arrays]
        return list(zip(rows.inputs, map(keras.KerasTensor, shapes, kinds), strict=True))
    if rows.kind != "dict":
        return list(zip(rows.inputs, known, strict=True))
    struct = getattr(model, "_inputs_struct", None)
    names = (
        {id(tensor): name for name, tensor in struct.items()} if isinstance(struct, dict) else {}
    )
    by_name = {recorded.name: recorded for recorded in rows.inputs}
    return [(by_name[names.get(id(tensor), tensor.name)], tensor) for tensor in known]


def read_rows(x: Any, y: Any, sample_weight: Any, *, most_rows: int) -> RecordedRows:
    """Return the rows that `fit` was called with, the first ones of many.

    Raises:
        ScriptFault: they have no labels, or labels of several outputs.
    """
    batch_size = None
    index = row_numbers(x) if row_numbers(x) is not None else row_numbers(y)
    if y is None and not isinstance(x, Mapping | list | np.ndarray):
        x, y, sample_weight, batch_size = _of_batches(x, most_rows)
    if y is None:
        raise ScriptFault("fit gets no labels; a model is trained here to predict a column")
    if isinstance(y, Mapping | list | tuple) and len(y) > 1 and not np.isscalar(next(iter(y))):
        raise ScriptFault(SEVERAL_LABELS.format(len(y)))
    if isinstance(y, Mapping):
        y = next(iter(y.values()))
    label = _array(y, most_rows)
    if label.ndim > 1 and label.shape[1] > 1 and not np.isin(label, (0, 1)).all():
        raise ScriptFault(SEVERAL_LABELS.format(label.shape[1]))
    kind = (
        "dict"
        if isinstance(x, Mapping) and not _is_frame(x)
        else "list"
        if isinstance(x, list | tuple) and not np.isscalar(x[0])
        else "tensor"
    )
    named = (
        x.items() if kind == "dict" else (("", value) for value in (x if kind == "list" else [x]))
    )
    weights = None if sample_weight is None else _array(sample_weight, most_rows).reshape(-1)
    return RecordedRows(
        inputs=tuple(_input(str(name), value, most_rows) for name, value in named),
        kind=kind,
        label=label,
        weights=weights,
        batch_size=batch_size,
        index=None if index is None else index[:most_rows],
    )


def _of_batches(data: Any, most_rows: int) -> tuple[Any, Any, Any, int]:
    batches: list[tuple[Any, ...]] = []
    num_rows = num_bytes = 0
    for batch in _batches(data):
        if not isinstance(batch, tuple | list) or len(batch) < 2:  # noqa: PLR2004
            raise ScriptFault("fit gets no labels; a model is trained here to predict a column")
        batches.append(keras.tree.map_structure(_array, tuple(batch)))
        flat = keras.tree.flatten(batches[-1])
        num_rows += len(flat[0])
        num_bytes += sum(array.nbytes for array in flat)
        if num_rows >= most_rows or num_bytes >= MOST_BYTES:
            break
    if not batches:
        raise ScriptFault("the data set that fit gets is empty")
    size = len(keras.tree.flatten(batches[0])[0])
    joined = keras.tree.map_structure(lambda *parts: np.concatenate(parts), *batches)
    return joined[0], joined[1], joined[2] if len(joined) > 2 else None, size  # noqa: PLR2004


def _batches(data: Any) -> Iterator[Any]:
    if isinstance(data, keras.utils.PyDataset):
        return (data[number] for number in range(data.num_batches or MOST_BATCHES))
    if not isinstance(data, Iterable):
        raise ScriptFault(f"fit gets a {type(data).__name__}; give it arrays or a tf.data.Dataset")
    return itertools.islice(iter(data), MOST_BATCHES)


def _input(name: str, value: Any, most_rows: int) -> RecordedInput:
    columns = tuple(map(str, value.columns)) if _is_frame(value) else ()
    return RecordedInput(name, _array(value, most_rows), columns)


def _is_frame(value: Any) -> bool:
    return type(value).__name__ == "DataFrame"


def row_numbers(value: Any) -> Array | None:
    """Return the numbers of the rows of a pandas object."""
    return np.asarray(value.index) if hasattr(value, "iloc") else None


def _array(value: Any, most_rows: int = MOST_BATCHES) -> Array:
    if hasattr(value, "to_numpy"):
        array: Array = value.to_numpy()
    else:
        array = np.asarray(value.to_tensor() if hasattr(value, "to_tensor") else value)
    array = array[:most_rows]
    if array.dtype.kind == "b":
        return array.astype(np.float32)
    if array.dtype.kind in "OS":
        return _texts(array)
    return array


def _texts(values: Array) -> Array:
    flat = values.reshape(-1)
    if all(isinstance(value, int | float | bool | np.number | np.bool_) for value in flat):
        return values.astype(np.float64)
    made = [
        value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in flat
    ]
    return np.array(made, dtype=object).reshape(values.shape)
