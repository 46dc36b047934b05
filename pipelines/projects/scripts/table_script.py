"""Columns, label and weights that a table takes over from a script."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.front import Front
from pipelines.projects.scripts.origins import Array, FileColumn, missing, origin_of
from pipelines.projects.scripts.record import COLUMNS
from pipelines.projects.scripts.rows import array_of, arrays_of, first, names_of, row_numbers
from pipelines.projects.scripts.script_text import ScriptFault
from pipelines.projects.scripts.written import NUM_CHECKED, ScriptParts
from trainer import Json
from trainer.errors import did_you_mean

# By their names without lines.
OF_NUMBERS = (
    *("mse", "mae", "mape", "msle", "meansquarederror", "meanabsoluteerror", "logcosh", "poisson"),
    *("meanabsolutepercentageerror", "meansquaredlogarithmicerror", "huber", "huberloss"),
)


def _read_columns(
    told: Json, rows: Any, num_rows: int, folder: Path
) -> tuple[Array, list[FileColumn]]:
    """Return which rows of x were read, and the file's columns in these.

    Raises:
        ScriptFault: the rows of x are not rows of the file.
    """
    table = pq.read_table(folder / COLUMNS)
    names, file_numbers = told["originals"], np.array(told["numbers"])
    columns = {name: _array(table[name].combine_chunks()) for name in table.column_names}
    numbers = row_numbers(rows, num_rows, {names[name]: own for name, own in columns.items()})
    at = np.searchsorted(file_numbers, numbers + 1).clip(max=len(file_numbers) - 1)
    is_read = file_numbers[at] == numbers + 1
    if told["is_whole"] and not is_read.all():
        raise ScriptFault(
            f"rows has {numbers[~is_read][0]:,}, and the file has the rows 0 to"
            f" {file_numbers.max() - 1:,}: leave rows that are made out of fit"
        )
    at = at[is_read]
    return is_read, [
        FileColumn(name, names[name], values[at], file_numbers[at], missing(values).sum())
        for name, values in columns.items()
    ]


def _array(values: pa.Array) -> Array:
    if pa.types.is_string(values.type):
        return np.array(values.fill_null("").to_pylist(), dtype=str)
    return np.asarray(values.fill_null(np.nan), dtype=np.float64)


def write_table(written: ScriptParts, told: Json, folder: Path) -> Json:
    """Return what a workload of a table takes over from a script.

    Raises:
        ScriptFault: the rows are not the file's, or what was made of them is not told.
    """
    fit, said = written.recording.fit_arguments, written.recording.told
    given = arrays_of(fit.get("x"))
    num_rows = len(keras.tree.flatten(given)[0])
    is_read, columns = _read_columns(told, said["rows"], num_rows, folder)
    given = keras.tree.map_structure(lambda values: values[is_read], given)
    if told["label"] and said["label"] not in ("", told["label"]):
        raise ScriptFault(
            f"trainyard.fit has label={said['label']!r}: omit --label {told['label']}"
        )
    target = _target(columns, told["label"] or said["label"])
    front = Front([column for column in columns if column is not target], written.writer)
    written.model(first(given, 2))  # which builds it
    is_graph = hasattr(written.model, "_nodes_by_depth")  # which casts its inputs
    expressions = [
        front.tensor(values, names, keeps_integers=not is_graph)
        for values, names in zip(keras.tree.flatten(given), names_of(fit["x"]), strict=True)
    ]
    y: Any = fit.get("y")
    output = next(iter(y)) if isinstance(y, Mapping) and len(y) == 1 else None
    values = array_of(y[output] if output else y)
    if len(values) != num_rows:
        raise ScriptFault("fit needs one label as y: an array, or a dict with that of one output")
    values = values[is_read]
    label = _label(written, values, target, given, told["kind"])
    classes = label.get("values", ())
    written.weigh_classes(classes, np.unique(codes_of(values)).tolist() if classes else ())
    _weigh_rows(written, columns, is_read)
    some = {output: values[:2]} if output else values[:2]
    written.settings((first(given, 2), some))
    described = [_described(*used, notes=written.notes) for used in front.used.items()]
    written.notes += front.notes
    if left_out := sorted({*told["numbers"]} - {*columns[0].numbers.tolist()}):
        written.notes.append(
            f"rows of the file that it leaves out: {len(left_out):,}, such as row {left_out[0]:,};"
            " the workload uses all, and splits them itself (prepare in run.yaml): remove from the"
            " file those that a filter leaves out"
        )
    written.result |= {"label": label, "label_column": target.original, "columns": described}
    own = {
        column.name: column.values[:NUM_CHECKED, np.newaxis].astype(
            str if column.is_text else np.float32
        )
        for column in front.used
    }
    return written.write(
        folder,
        inputs=keras.tree.pack_sequence_as(given, expressions),
        given=given,
        own=keras.tree.map_structure(keras.ops.convert_to_tensor, own),
    )


def _target(columns: Sequence[FileColumn], label: str) -> FileColumn:
    for column in columns:
        if label in (column.original, column.name):
            if column.is_missing.any():
                row = column.numbers[column.is_missing.argmax()]
                raise ScriptFault(f"row {row:,} of the file has no {label}: leave it out of x")
            return column
    names = [column.original for column in columns]
    hint = did_you_mean(label, names)
    raise ScriptFault(f"label={label!r}:{hint} it is a column: {', '.join(names)}")


def _label(written: ScriptParts, y: Array, target: FileColumn, given: Any, kind: str) -> Json:
    """Return the label that the script trains on: its kind, and the values of its classes."""
    size, name = written.output_size(given, target.name), target.original
    codes = codes_of(y)
    if codes.ndim > 1:
        raise ScriptFault(
            f"y has {codes.shape[1]} labels for a row: give fit one of them, and a model with one"
            " output; lists of labels in the file are a Multilabel of a workload.py of your own"
        )
    own_kind = _kind(written, codes, target, size, kind)
    if kind not in ("", own_kind):
        raise ScriptFault(f"its loss is for {own_kind}: omit --kind {kind}, or change the script")
    if own_kind == "regression":
        origin = origin_of(codes, target)
        if origin is None or not origin.is_own:
            raise ScriptFault(
                f"y has not {name}'s own numbers: give fit these, and end the model by"
                " keras.layers.Rescaling instead of scaling y; for a logarithm there is"
                ' loss="mean_squared_logarithmic_error"'
            )
        return {"kind": own_kind}
    values, first, numbers = target.distinct
    table = codes[first]
    if not (table[numbers] == codes).all() or len({*table.tolist()}) < len(table):
        raise ScriptFault(
            f"y is no number for each value of {name}: write the class that fit gets into the file"
            " as a column, which is the label"
        )
    if len(table) != (2 if own_kind == "binary" else size):
        raise ScriptFault(
            f"the model has {size} outputs, and {name} {len(table)} classes: give its last layer as"
            " many units"
        )
    if own_kind == "binary":
        if sorted(table.tolist()) not in ([0, 1], [-1, 1]):
            shown = " and ".join(f"{code:g}" for code in sorted(table.tolist()))
            raise ScriptFault(
                f"y has {shown} for the two values of {name}: give fit 0 and 1, and the loss"
                " label_smoothing=… where they are smoothed"
            )
        written.count_from_one_half(target.name)
    ordered = values[np.argsort(table)].tolist()
    # A label of whole numbers has them without a point.
    are_whole = all(not isinstance(value, str) and value.is_integer() for value in ordered)
    return {"kind": own_kind, "values": [*map(int, ordered)] if are_whole else ordered}


def codes_of(y: Array) -> Array:
    """Return a label as [rows], also of one that is one-hot; several labels stay as they are."""
    if y.ndim == 1 or y.shape[1] == 1:
        return y.reshape(-1)
    is_one_hot = np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()
    return y.argmax(axis=1) if is_one_hot else y


def _kind(written: ScriptParts, codes: Array, target: FileColumn, size: int, kind: str) -> str:
    """Return the kind of the label, which follows the loss.

    Raises:
        ScriptFault: a loss of the script's own may be for two kinds.
    """
    if size > 1 or target.is_text:
        return "classes" if size > 1 else "binary"
    loss = written.loss_of(target.name)
    name = loss if isinstance(loss, str) else getattr(loss, "name", getattr(loss, "__name__", ""))
    plain = str(name).lower().replace("_", "")
    if plain in OF_NUMBERS or len(np.unique(codes)) > 2:  # noqa: PLR2004
        return "regression"
    if "crossentropy" in plain or "hinge" in plain:
        return "binary"
    if not kind:
        raise ScriptFault(
            f"the loss {name} may be for two classes or for numbers: give --kind binary, or --kind"
            " regression"
        )
    return kind


def _weigh_rows(written: ScriptParts, columns: Sequence[FileColumn], is_read: Array) -> None:
    given = written.recording.fit_arguments.get("sample_weight")
    if given is None:
        return
    weights = array_of(given).reshape(-1)[is_read]
    for column in columns:
        if (origin := origin_of(weights, column)) and origin.is_own:
            written.arguments.append(f"weight={quoted(column.name)},")
            return
    raise ScriptFault(
        "sample_weight is no column of the file: write it into the file as one, or give"
        " class_weight"
    )


def _described(column: FileColumn, is_filled: bool, *, notes: list[str]) -> Json:
    is_filled = is_filled or bool(column.is_missing.any())
    num_dropped = 0 if is_filled or column.is_text else int(column.num_missing)
    if num_dropped:
        told = f"rows without {column.name} are left out ({num_dropped:,})"
        notes.append(f"{told}, as the script does")
    return {
        "name": column.name,
        "is_text": column.is_text,
        "is_filled": is_filled,
        "num_dropped": num_dropped,
    }
