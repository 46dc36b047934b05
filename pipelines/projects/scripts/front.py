"""The layers in front of a model, which make its inputs of the file's own values."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from pipelines.projects.literals import quoted
from pipelines.projects.scripts.columns import (
    FileColumn,
    Origin,
    explain,
    origin_by_layer,
    refusal,
)
from pipelines.projects.scripts.keras_source import Source, number
from pipelines.projects.scripts.rows import Input

LAYERS = (
    *(keras.layers.TextVectorization, keras.layers.StringLookup, keras.layers.IntegerLookup),
    *(keras.layers.Discretization, keras.layers.CategoryEncoding, keras.layers.Hashing),
)


@dataclass
class Front:
    """The lines before a model.

    Attributes:
        used: the columns that the model gets, in order.
        filled: those with a value for a missing one.
        notes: what was made of columns outside the model.
    """

    columns: Sequence[FileColumn]
    source: Source
    used: dict[str, FileColumn] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def tensor(self, own: Input, wanted: Any, *, variable: str) -> str:
        """Add the lines that make an input of the model; return its expression.

        Raises:
            ScriptFault: no column of the file has these values.
        """
        origins = self._origins(own)
        parts = []
        for name, group in itertools.groupby(origins, key=lambda o: o.table and o.column.name):
            members = list(group)
            parts += [self._looked_up(members)] if name else list(map(self._value, members))
        expression = parts[0]
        if len(parts) > 1:
            self.lines.append(f"{variable} = keras.layers.Concatenate()([{', '.join(parts)}])")
            expression = variable
        if wanted.dtype.startswith("int"):
            expression = f'keras.ops.cast({expression}, "{wanted.dtype}")'
        shape = tuple(wanted.shape[1:])
        if not shape:
            return f"keras.ops.squeeze({expression}, -1)"
        if len(shape) > 1 and None not in shape:
            return f"keras.ops.reshape({expression}, {(-1, *shape)})"
        return expression

    def _origins(self, own: Input) -> list[Origin]:
        origins: list[Origin] = []
        at, values = 0, own.values.reshape(len(own.values), -1)
        layers = [value for value in self.source.variables.values() if isinstance(value, LAYERS)]
        while at < values.shape[1]:
            previous = origins[-1].column if origins else None
            name = own.columns[at]
            origin = explain(values[:, at], self.columns, name=name, previous=previous)
            origin = origin or origin_by_layer(values[:, at:], self.columns, layers)
            if origin is None:
                raise refusal(values[:, at], self.columns, name)
            column = origin.column
            self.used[column.name] = column
            if origin.fill is not None or origin.table or origin.layer:
                self.filled.add(column.name)
            origins.append(origin)
            at += origin.width
        return origins

    def _value(self, origin: Origin) -> str:
        """Return the expression of a column's own values, a line or logarithm of them."""
        column, name = origin.column, origin.column.original
        plain = made = f"inputs[{quoted(column.name)}]"
        if origin.layer:
            self.notes.append(f"{name}: {type(origin.layer).__name__} is within the model now")
            variable = self._line(column, f"{self.source.of(origin.layer)}({plain})")
            return f'keras.ops.cast({variable}, "float32")'
        if origin.log_shift is not None:
            made = f"keras.ops.log({plain} + {number(origin.log_shift)})"
            self.notes.append(f"{name} is its logarithm in x, after adding {origin.log_shift:g}")
        if origin.mean:
            made = f"({made} {'-' if origin.mean > 0 else '+'} {number(abs(origin.mean))})"
        if origin.deviation != 1:
            made = f"{made} / {number(origin.deviation)}"
            self.source.learnt[f"scale of {name}"] = None
        if origin.fill is None:
            return made
        self.notes.append(f"missing {name} is {origin.fill!s} in x")
        if column.is_text:
            return f'keras.ops.where(keras.ops.equal({plain}, ""), {quoted(origin.fill)}, {made})'
        return f"keras.ops.where(keras.ops.isnan({plain}), {number(origin.fill)}, {made})"

    def _looked_up(self, origins: Sequence[Origin]) -> str:
        """Return the expression of the numbers that stand for the texts of one column."""
        column = origins[0].column
        texts = column.distinct[0].tolist()
        self.source.learnt[f"{len(texts):,} texts of {column.original}"] = None
        words = [texts[origin.hot] for origin in origins if origin.hot is not None]
        if len(words) == len(origins):
            self.notes.append(f"{column.original} is one-hot in x, all 0 for an unknown text")
            return self._lookup(column, words, ', output_mode="one_hot"') + "[:, 1:]"
        tables = np.array([origin.table for origin in origins]).T
        unknown = tables.min(axis=0).tolist()
        self.notes.append(
            f"{column.original} is a number for each text in x,"
            f" {', '.join(map(number, unknown))} for an unknown one"
        )
        index = self._lookup(column, texts)
        values = self.source.listed(f"numbers of {column.name}", [unknown, *tables.tolist()])
        taken = f"keras.ops.take(keras.ops.array({values}), {index}, axis=0)"
        return f"keras.ops.reshape({taken}, (-1, {len(origins)}))"

    def _lookup(self, column: FileColumn, texts: Sequence[str], more: str = "") -> str:
        vocabulary = self.source.listed(f"texts of {column.name}", texts)
        layer = f"keras.layers.StringLookup(vocabulary={vocabulary}{more})"
        return self._line(column, f"{layer}(inputs[{quoted(column.name)}])")

    def _line(self, column: FileColumn, expression: str) -> str:
        name = f"of_{len(self.lines)}_" + re.sub(r"\W", "_", column.name)
        self.lines.append(f"{name} = {expression}")
        return name
