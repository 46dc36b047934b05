"""Columns, label and weights that a table takes over from a script."""

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import keras
import numpy as np

from components.shared.text.value_text import shown_value
from pipelines.projects.scripts.compare_rows import (
    Array,
    FileColumn,
    Origin,
    find_rows,
    label_origin,
    label_table,
)
from pipelines.projects.scripts.front import Before, Front, layers_before
from pipelines.projects.scripts.recorder import Recording
from pipelines.projects.scripts.row_order import orders_among
from pipelines.projects.scripts.rows import RecordedInput, RecordedRows, inputs_of
from pipelines.projects.scripts.script_text import ScriptFault, ScriptText
from pipelines.projects.scripts.written import Parts, WrittenModel
from trainer import Json

NUM_CHECKED = 64
FEWEST_OF_CLASS, RESAMPLED = 20, 2  # rows of a class; ratio of two classes' shares in fit
SEPARATORS = "|;,"  # of lists of labels
FEWEST_LEFT, LEFT_SHARE = 10, 0.05  # rows beyond those in fit, which no random split leaves out


class WrittenTable(WrittenModel):
    """A script that trains on the columns of a table."""

    def __init__(
        self,
        script: ScriptText,
        recording: Recording,
        columns: Sequence[FileColumn],
        target: FileColumn,
    ):
        super().__init__(script, recording)
        self._columns, self._target = columns, target

    def parts(self, rows: RecordedRows) -> Parts:
        """Return the layers before the model, and write down columns, label and weights.

        Raises:
            ScriptFault: the rows are not the file's, or what was made of them is unknown.
        """
        texts = "".join(self._target.values) if self._target.is_text else ""
        if rows.num_labels > 1 and not any(separator in texts for separator in SEPARATORS):
            raise ScriptFault(
                f"fit gets {rows.num_labels} labels, of which a row may have several: write them"
                " into one column of the file as lists, such as a|b, and give that as --label",
                line=self.script.line_of_argument("y", self.recording.line),
            )
        inputs = [
            (self._with_names(recorded), wanted) for recorded, wanted in inputs_of(self.model, rows)
        ]
        variables = self.recording.variables
        orders = [*self.recording.orders, *orders_among([rows.index, *variables.values()])]
        layers = {
            recorded.name: before
            for recorded, _ in inputs
            if recorded.num_columns > 1
            if (before := layers_before(recorded, self._columns, variables, orders))
        }
        if layers:
            file_rows = next(iter(layers.values())).rows
        else:
            file_rows = self._find_rows([recorded for recorded, _ in inputs], rows.label, orders)
        scale = self._label(rows, file_rows)
        front = Front(self._columns, file_rows, self.source)
        expressions = []
        for at, (recorded, wanted) in enumerate(inputs):
            if recorded.name in layers:
                expressions.append(self._before(layers[recorded.name], front, f"encoded_{at + 1}"))
                continue
            variable = "x" if len(inputs) == 1 else f"input_{at + 1}"
            try:
                expressions.append(front.tensor(recorded, wanted, variable=variable))
            except ScriptFault:
                self._refuse_encoders()
                raise
        line = self.script.line_of_argument("x", self.recording.line)
        self.notes += [f"{note} (the inputs of line {line})" for note in dict.fromkeys(front.notes)]
        self._weights(rows, file_rows)
        self.result["columns"] = [_described(column, front) for column in front.used.values()]
        return Parts(
            lines=front.lines,
            expressions=expressions,
            inputs={
                name: keras.Input([1], name=name, dtype="string" if column.is_text else "float32")
                for name, column in front.used.items()
            },
            batch={
                name: keras.ops.convert_to_tensor(_values(column, file_rows[:NUM_CHECKED]))
                for name, column in front.used.items()
            },
            known=slice(0, NUM_CHECKED),
            scale=scale,
        )

    def _find_rows(
        self, inputs: Sequence[RecordedInput], label: Array, orders: Sequence[Array]
    ) -> Array:
        """Return the row of the file for each recorded row; ScriptFault if there is none."""
        plain = [recorded.column(at) for recorded in inputs for at in range(recorded.num_columns)]
        rows = find_rows(plain, label, self._columns, self._target, orders=orders)
        if rows is None:
            self._refuse_encoders()
            raise ScriptFault(
                "the rows that reached fit are not rows of the file with its label"
                f" {self._target.name!r}: give the file that the script reads, and the column that"
                " it predicts, as it is; let pandas, NumPy or scikit-learn filter, shuffle and"
                " split its rows, and give fit arrays or a tf.data.Dataset of them, one row for an"
                " example: no generator, and no windows of several rows"
            )
        return rows

    def _refuse_encoders(self) -> None:
        """Raise ScriptFault for an object that turns texts into numbers and is no layer."""
        for name, value in self.recording.variables.items():
            if isinstance(value, ModuleType):
                continue
            kind = type(value).__name__
            if kind == "Tokenizer" or hasattr(value, "vocabulary_"):
                raise ScriptFault(
                    f"{name}, a {kind}, turns texts into numbers, and is no layer: adapt a"
                    " keras.layers.TextVectorization to these texts instead, and give fit what it"
                    " returns",
                    line=self.script.line_of(name),
                )

    def _with_names(self, recorded: RecordedInput) -> RecordedInput:
        frames = [
            value
            for value in self.recording.variables.values()
            if type(value).__name__ == "DataFrame" and len(value.columns) == recorded.num_columns
        ]
        if recorded.columns or recorded.num_columns == 1 or not frames:
            return recorded
        return replace(recorded, columns=tuple(map(str, frames[-1].columns)))

    def _before(self, before: Before, front: Front, variable: str) -> str:
        front.used |= {column.name: column for column in before.columns}
        names = [f"inputs[{json.dumps(column.name)}]" for column in before.columns]
        shown = ", ".join(column.name for column in before.columns)
        is_layer = not hasattr(before.graph, "_nodes_by_depth")
        layer_name = type(before.graph).__name__ if is_layer else "FeatureSpace"
        self.notes.append(f"{shown}: encoded by {layer_name} before fit, now within the model")
        if is_layer:
            front.lines.append(f"{variable} = {self.source.of(before.graph)}({names[0]})")
            return variable
        expressions = [
            name if wanted.dtype == "string" else f'keras.ops.cast({name}, "{wanted.dtype}")'
            for name, wanted in zip(names, before.graph.inputs, strict=True)
        ]
        lines, output = self.models.lines(before.graph, expressions)
        front.lines += [*lines, f"{variable} = {output}"]
        return variable

    def _label(self, rows: RecordedRows, file_rows: Array) -> Origin | None:
        """Write down which label the script trains on; return the scale of one of numbers."""
        target, num_outputs = self._target, self.num_outputs(rows)
        if rows.num_labels > 1:
            self._check_labels(rows, file_rows)
            self.result["label"] = {"kind": "multilabel"}
            return None
        table = label_table(rows.label, target, file_rows)
        origin = label_origin(rows.label, target, file_rows)
        is_number = rows.label.dtype.kind == "f" and (
            not self._has_crossentropy() or len(np.unique(rows.label % 1)) > 2  # noqa: PLR2004
        )
        if num_outputs == 1 and origin is not None and (is_number or table is None):
            self.result["label"] = {"kind": "regression"}
            return origin if origin.is_scaled or origin.log_shift is not None else None
        if table is None:
            raise ScriptFault(f"the label of fit does not follow from the column {target.name!r}")
        codes = {int(code): value for value, code in table.items()}
        if len(codes) < len(table):
            raise ScriptFault(
                f"several values of {target.name} are one class in fit: write the class into the"
                " file as a column, which is the label",
                line=self.script.line_of_argument("y", self.recording.line),
            )
        kind = "binary" if num_outputs == 1 else "classes"
        self.result["label"] = {"kind": kind, "values": [codes[code] for code in sorted(codes)]}
        if kind == "classes" and num_outputs != len(codes):
            raise ScriptFault(
                f"the model has {num_outputs} outputs, and {target.name} {len(codes)} classes: give"
                f" its last layer {len(codes)} units"
            )
        return None

    def _check_labels(self, rows: RecordedRows, file_rows: Array) -> None:
        """Raise ScriptFault unless the labels of fit are those in the file's lists."""
        wanted = {tuple(column) for column in rows.label.astype(bool).T}
        for separator in SEPARATORS:
            lists = [{*map(str.strip, text.split(separator))} for text in self._target.values]
            names = {*itertools.chain(*lists)} - {""}
            if len(names) > rows.num_labels:
                continue
            if {tuple(name in lists[at] for at in file_rows) for name in names} == wanted:
                return
        raise ScriptFault(f"the labels of fit are not those in the lists of {self._target.name}")

    def _has_crossentropy(self) -> bool:
        loss = self.recording.compiled[0].get("loss")
        name = (
            loss if isinstance(loss, str) else getattr(loss, "name", getattr(loss, "__name__", ""))
        )
        return "crossentropy" in str(name)

    def _weights(self, rows: RecordedRows, file_rows: Array) -> None:
        values = self.result["label"].get("values", [])
        codes, numbers = np.unique(rows.class_numbers, return_inverse=True)
        by_code = self.recording.fit.get("class_weight") or {}
        if by_code and not values:
            raise ScriptFault("class_weight is for a label of classes: remove it from fit")
        weights = {at: by_code[code] for at, code in enumerate(codes) if code in by_code}
        is_whole = len(rows.label) < self.most_rows
        if is_whole and (others := self._common_of_others(file_rows)):
            remedy = "remove the others from the file, or set prepare.split if they judge the model"
            self.notes.append(f"{others}; the workload uses all: {remedy}")
        elif is_whole:
            weights = self._resampled(values, numbers, weights)
        if weights:
            self.class_weights(values, weights)
        if rows.weights is None:
            return
        for column in self._columns:
            if not column.is_text and np.allclose(column.values[file_rows], rows.weights):
                self.result["weight"] = column.name
                return
        of_class = [np.unique(rows.weights[numbers == at]) for at in range(len(values))]
        if not values or any(len(weights) != 1 for weights in of_class):
            raise ScriptFault(
                "sample_weight is neither a column of the file nor a number for each class: write"
                " it into the file as a column"
            )
        self.class_weights(values, {at: weight for at, [weight] in enumerate(of_class)})

    def _resampled(
        self, values: Sequence[Any], numbers: Array, weights: dict[int, float]
    ) -> dict[int, float]:
        own = [int((self._target.values == value).sum()) for value in values]
        if not values or min(own) < FEWEST_OF_CLASS:
            return weights
        shares = [float((numbers == at).sum()) / own[at] for at in range(len(own))]
        if max(shares) <= RESAMPLED * min(shares):
            return weights
        shown = ", ".join(f"{share:.3g}" for share in shares)
        self.notes.append(
            f"fit has the rows of {shown_value([*values])} {shown} times as often as the file:"
            " class_weights stand for that"
        )
        mean = len(numbers) / sum(own)
        return {at: share / mean * weights.get(at, 1) for at, share in enumerate(shares)}

    def _common_of_others(self, file_rows: Array) -> str:
        numbers = FileColumn("the row's number", np.arange(1.0, len(self._target.values) + 1))
        is_in = np.isin(numbers.values, file_rows + 1)
        told: list[str] = []
        for column in (numbers, *self._columns, self._target):
            inside, left = column.values[is_in], column.values[~is_in]
            if column.is_text:
                known = {"", *inside.tolist()}
                others = Counter(text for text in left.tolist() if text not in known)
                told += [f"{column.name} {t!r}" for t in others if others[t] >= FEWEST_LEFT][:1]
            elif np.isfinite(inside).any():
                least = max(FEWEST_LEFT, LEFT_SHARE * len(left))
                low, high = np.nanmin(inside), np.nanmax(inside)
                told += [f"{column.name} below {low:g}"] if (left < low).sum() >= least else []
                told += [f"{column.name} above {high:g}"] if (left > high).sum() >= least else []
        some = f"fit has {is_in.sum():,} of the file's {len(is_in):,} rows"
        return f"{some}, none with {' or '.join(told[:3])}" if told else ""


def _described(column: FileColumn, front: Front) -> Json:
    missing = column.values != column.values  # NaN
    in_fit = missing[front.rows[front.rows >= 0]]
    is_filled = front.filled.get(column.name, True) or bool(in_fit.any())
    return {
        "name": column.name,
        "is_text": column.is_text,
        "is_filled": is_filled,
        "num_dropped": 0 if is_filled else int(missing.sum()),
    }


def _values(column: FileColumn, rows: Array) -> Array:
    values = column.values[rows][:, np.newaxis]
    return values.astype(str) if column.is_text else values.astype(np.float32)
