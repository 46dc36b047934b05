"""The layers in front of a recorded model, which make its inputs of the file's own values."""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from components.shared.text.value_text import first_of
from pipelines.projects.literals import quoted
from pipelines.projects.scripts.compare_rows import (
    Array,
    FileColumn,
    Origin,
    explain,
    possible_rows,
)
from pipelines.projects.scripts.keras_source import Source, number
from pipelines.projects.scripts.rows import RecordedInput
from pipelines.projects.scripts.script_text import ScriptFault

NAN_CODE = -(2**31)  # stands for a missing number in a table


@dataclass
class Front:
    """The lines before a model, what was seen, and what cannot be taken over.

    Attributes:
        rows: the row of the file for each recorded row.
        used: the columns that the model gets, in order.
        filled: for each of them, whether the script has a value for missing ones.
        notes: what was made of columns outside the model, and what replaces it.
    """

    columns: Sequence[FileColumn]
    rows: Array
    source: Source
    used: dict[str, FileColumn] = field(default_factory=dict)
    filled: dict[str, bool] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def tensor(self, recorded: RecordedInput, wanted: Any, *, variable: str) -> str:
        """Add the lines that make an input of the model; return its expression.

        Raises:
            ScriptFault: no column of the file has these values.
        """
        origins = self._origins(recorded)
        expression = self._side_by_side(origins, variable)
        expression = self._scaled(origins, expression, variable)
        is_text = self._column(origins[0]).is_text and not origins[0].table
        dtype = "string" if is_text else "float32"
        if wanted.dtype.startswith("int") and not is_text:
            expression, dtype = f'keras.ops.cast({expression}, "{wanted.dtype}")', wanted.dtype
        if (wanted.dtype == "string") != (dtype == "string"):
            raise ScriptFault(
                f"the input {wanted.name} takes {wanted.dtype}, but {origins[0].column} has"
                f" {'texts' if is_text else 'numbers'}: give the input the type of these"
            )
        if len(wanted.shape) == 1:
            expression = f"keras.ops.squeeze({expression}, -1)"
        shape = tuple(wanted.shape[1:])
        if len(shape) > 1 and None not in shape:
            expression = f"keras.ops.reshape({expression}, {(-1, *shape)})"
        return expression

    def _origins(self, recorded: RecordedInput) -> list[Origin]:
        origins: list[Origin] = []
        unknown = []
        for at in range(recorded.num_columns):
            name = recorded.columns[at] if recorded.columns else recorded.name
            after = origins[-1].column if origins else ""
            origin = explain(recorded.column(at), self.columns, self.rows, name=name, after=after)
            if origin is None:
                unknown.append(name or f"number {at + 1}")
            else:
                origins.append(origin)
        if unknown:
            self._refuse_texts(unknown)
            script = self.source.script
            raise ScriptFault(
                "no column of the file has the values of what the model gets as"
                f" {first_of(unknown, 5)}: write them into the file as columns, or give fit the"
                " columns of which they are made,"
                " and compute them in the model (a Keras layer)",
                line=next(filter(None, map(script.line_of, unknown)), 0),
            )
        return origins

    def _refuse_texts(self, names: Sequence[str]) -> None:
        """Raise ScriptFault for dummies of a column of numbers, which pandas read as texts."""
        for column in self.columns:
            num = sum(name.startswith(f"{column.original}_") for name in names)
            if num > 1 and not column.is_text:
                name = quoted(column.original)
                raise ScriptFault(
                    f"the model gets {num:,} columns for the values of {column.original}, which are"
                    " numbers, but one is a blank or a word, so the script reads them as texts:"
                    f" before this line convert them: df[{name}] ="
                    f' pd.to_numeric(df[{name}], errors="coerce").fillna(0)',
                    line=min(
                        (call.lineno for call in self.source.script.calls("get_dummies")), default=0
                    ),
                )

    def _column(self, origin: Origin) -> FileColumn:
        return next(column for column in self.columns if column.name == origin.column)

    def _use(self, origin: Origin) -> str:
        """Return the expression of a column's own values, missing ones filled."""
        column = self._column(origin)
        self.used[column.name] = column
        self.filled[column.name] = origin.fill is not None or None in origin.table
        plain = f"inputs[{quoted(column.name)}]"
        if origin.fill is None:
            return plain
        if column.is_text:
            self.notes.append(f"missing {column.name} is {origin.fill!r}")
            return f'keras.ops.where(keras.ops.equal({plain}, ""), {quoted(origin.fill)}, {plain})'
        self.notes.append(f"missing {column.name} is {origin.fill:g}")
        return f"keras.ops.where(keras.ops.isnan({plain}), {number(origin.fill)}, {plain})"

    def _side_by_side(self, origins: Sequence[Origin], variable: str) -> str:
        parts = []
        for name, group in itertools.groupby(
            origins, key=lambda origin: origin.column if origin.table else ""
        ):
            members = list(group)
            parts += [self._looked_up(members)] if name else list(map(self._number, members))
        if len(parts) == 1:
            return parts[0]
        self.lines.append(f"{variable} = keras.layers.Concatenate()([{', '.join(parts)}])")
        return variable

    def _number(self, origin: Origin) -> str:
        plain = self._use(origin)
        if origin.log_shift is None:
            return plain
        shift = origin.log_shift
        self.notes.append(f"{origin.column} is the logarithm of {origin.column} + {shift:g}")
        return f"keras.ops.log({plain} + {number(shift)})" if shift else f"keras.ops.log({plain})"

    def _looked_up(self, origins: Sequence[Origin]) -> str:
        """Return the expression of numbers that stand for the values of one column."""
        column = self._column(origins[0])
        keys = [key for key in origins[0].table if key is not None]
        is_text = column.is_text
        plain = self._use(origins[0])
        if not is_text:
            if any(key != int(key) for key in keys):
                raise ScriptFault(f"{column.name}: numbers with a fraction are looked up")
            keys = list(map(int, keys))
            if None in origins[0].table:
                keys.append(NAN_CODE)
                plain = f"keras.ops.where(keras.ops.isnan({plain}), {NAN_CODE}, {plain})"
            plain = f'keras.ops.cast({plain}, "int64")'
        make = keras.layers.StringLookup if is_text else keras.layers.IntegerLookup
        hot = [_hot(origin) for origin in origins]
        if all(value is not None for value in hot):
            self.notes.append(
                f"{column.name} is one-hot: {len(hot)} columns, all 0 for an unknown value"
                if len(hot) > 1
                else f"{column.name} is 1 for {hot[0]}, else 0"
            )
            words = [value if is_text else int(value) for value in hot]
            layer = make(vocabulary=words, output_mode="one_hot")
            variable = self._line(column, f"{self.source.of(layer)}({plain})")
            return f"{variable}[:, 1:]"
        tables = [
            [origin.table.get(None if key == NAN_CODE else key, 0.0) for key in keys]
            for origin in origins
        ]
        if len(tables) == 1 and sorted(tables[0]) == list(range(len(keys))):
            words = sorted(keys, key=dict(zip(keys, tables[0], strict=True)).__getitem__)
            self.notes.append(
                f"{column.name} is the number of its value, 0 to {len(keys) - 1}; unknown is 0"
            )
            variable = self._line(column, f"{self.source.of(make(vocabulary=words))}({plain})")
            return f'keras.ops.cast(keras.ops.maximum({variable} - 1, 0), "float32")'
        unknown = [min(values) for values in tables]
        rows = zip(
            *([fill, *table] for fill, table in zip(unknown, tables, strict=True)), strict=True
        )
        shown = ", ".join(map(_numbers, rows))
        self.notes.append(
            f"{column.name}: a number for each of its {len(keys)} values,"
            f" {', '.join(f'{fill:.4g}' for fill in unknown)} for an unknown value"
        )
        variable = self._line(column, f"{self.source.of(make(vocabulary=keys))}({plain})")
        taken = f"keras.ops.take(keras.ops.array([{shown}]), {variable}, axis=0)"
        return f"keras.ops.reshape({taken}, (-1, {len(origins)}))"

    def _line(self, column: FileColumn, expression: str) -> str:
        name = re.sub(r"\W", "_", column.name)
        self.lines.append(f"of_{name} = {expression}")
        return f"of_{name}"

    def _scaled(self, origins: Sequence[Origin], expression: str, variable: str) -> str:
        if not any(origin.is_scaled for origin in origins):
            return expression
        means = [origin.mean for origin in origins]
        deviations = [origin.deviation for origin in origins]
        is_one = len(set(deviations)) == 1 and not any(means)
        scaled = dict.fromkeys(origin.column for origin in origins if origin.is_scaled)
        names = first_of(list(scaled), 5)
        if is_one:
            layer = f"keras.layers.Rescaling({number(1 / deviations[0])})"
        else:
            if min(deviations) < 0:
                raise ScriptFault(f"{names}: numbers with the other sign; turn it in the model")
            variances = _numbers([deviation**2 for deviation in deviations])
            layer = f"keras.layers.Normalization(mean={_numbers(means)}, variance={variances})"
        self.lines.append(f"{variable} = {layer}({expression})")
        layer_name = "Rescaling" if is_one else "Normalization"
        self.notes.append(f"{names}: scaled outside the model; a {layer_name} has the same numbers")
        limits = [origin.limits or (-math.inf, math.inf) for origin in origins]
        if any(origin.limits for origin in origins):
            # One pair of limits for all columns, or -inf and inf for those without.
            same = {limit for limit in limits if all(map(math.isfinite, limit))}
            if len(same) == 1:
                shown = list(map(number, next(iter(same))))
            else:
                shown = [f"keras.ops.array({_numbers(ends)})" for ends in zip(*limits, strict=True)]
            self.lines.append(f"{variable} = keras.ops.clip({variable}, {', '.join(shown)})")
            self.notes.append(f"cut to {shown[0]} and {shown[1]}")
        return variable


def _numbers(values: Sequence[float]) -> str:
    return f"[{', '.join(map(number, values))}]"


def _hot(origin: Origin) -> Any:
    """Return the value that is 1 while all others are 0; None if there is none."""
    hot = [key for key, value in origin.table.items() if value == 1]
    remaining = {value for value in origin.table.values() if value != 1}
    return hot[0] if len(hot) == 1 and remaining == {0.0} and hot[0] is not None else None


@dataclass(frozen=True)
class Before:
    """A layer or graph of a script that made an input of the model before `fit`.

    Attributes:
        graph: a layer of texts, or a model of the columns.
        columns: that it gets, in the order of its inputs.
        rows: the row of the file for each recorded row.
    """

    graph: Any
    columns: tuple[FileColumn, ...]
    rows: Array


def layers_before(
    recorded: RecordedInput,
    columns: Sequence[FileColumn],
    variables: dict[str, Any],
    orders: Sequence[Array],
) -> Before | None:
    """Return what a script applied to columns of the file outside the model, None if nothing."""
    for graph, needed in _graphs(columns, variables):
        inputs = getattr(graph, "inputs", None) or [keras.KerasTensor((None, 1), "string")]
        values = [
            keras.ops.convert_to_tensor(_as_type(column, wanted.dtype))
            for column, wanted in zip(needed, inputs, strict=True)
        ]
        made = np.asarray(graph(values if len(values) > 1 else values[0]))
        if made.shape[1:] != recorded.values.shape[1:]:
            continue
        for rows in possible_rows(len(recorded.values), columns, orders):
            if np.allclose(made[rows], recorded.values, rtol=0, atol=1e-4):
                return Before(graph, needed, rows)
    return None


def _graphs(
    columns: Sequence[FileColumn], variables: dict[str, Any]
) -> Iterator[tuple[Any, tuple[FileColumn, ...]]]:
    """Yield the layers of texts and the feature spaces of a script, with columns for them."""
    by_name = {name: column for column in columns for name in (column.original, column.name)}
    texts = [column for column in columns if column.is_text]
    for thing in variables.values():
        if isinstance(thing, keras.utils.FeatureSpace) and thing.built:
            graph = keras.Model(thing.get_inputs(), thing.get_encoded_features())
            names = [tensor.name for tensor in graph.inputs]
            if all(name in by_name for name in names):
                yield graph, tuple(by_name[name] for name in names)
        elif isinstance(thing, keras.layers.TextVectorization | keras.layers.StringLookup):
            yield from ((thing, (column,)) for column in texts)


def _as_type(column: FileColumn, dtype: str) -> Array:
    values = column.values[:, np.newaxis]
    return values.astype(str) if dtype == "string" else values.astype(dtype)
