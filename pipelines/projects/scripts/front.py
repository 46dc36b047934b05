"""The layers in front of a model, which make its inputs of the file's own values."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pipelines.projects.literals import Source
from pipelines.projects.scripts.origins import LAYERS, Array, FileColumn, Origin, origins_of
from pipelines.projects.scripts.source import Writer, number


@dataclass
class Front:
    """The lines before a model.

    Attributes:
        used: the columns that the model gets, in order.
        filled: those with a value for a missing one.
        notes: what was made of columns outside the model.
    """

    columns: Sequence[FileColumn]
    writer: Writer
    used: dict[str, FileColumn] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def tensor(self, given: Array, names: Sequence[str], *, keeps_integers: bool) -> Source:
        """Add the lines that make a tensor of x; return its expression.

        Raises:
            ScriptFault: no column of the file has these values.
        """
        layers = [value for value in self.writer.variables.values() if isinstance(value, LAYERS)]
        origins = origins_of(given.reshape(len(given), -1), names, self.columns, layers)
        for origin in origins:
            self.used[origin.column.name] = origin.column
            if origin.is_filled or origin.table or origin.layer:
                self.filled.add(origin.column.name)
        parts: list[str] = []
        for is_table, group in itertools.groupby(origins, lambda o: o.table and o.column.name):
            same = list(group)
            parts += [self._looked_up(same)] if is_table else map(self._value, same)
        expression = parts[0]
        if len(parts) > 1:
            expression = self._line("input", f"keras.layers.Concatenate()([{', '.join(parts)}])")
        if keeps_integers and given.dtype.kind == "i":
            expression = f'keras.ops.cast({expression}, "{given.dtype}")'
        if given.ndim == 1:
            expression = f"keras.ops.squeeze({expression}, -1)"
        if given.ndim > 2:  # noqa: PLR2004
            expression = f"keras.ops.reshape({expression}, {(-1, *given.shape[1:])})"
        return Source(expression)

    def _value(self, origin: Origin) -> str:
        """Return the expression of a column's own values, a line or logarithm of them."""
        column, made = origin.column, origin.made
        if origin.layer:
            kind = type(origin.layer).__name__
            self.notes[f"{column.original}: {kind} is within the model now"] = None
            layer = self.writer.of(origin.layer)
            variable = self._line(column.name, f"{layer}({column.expression})")
            return f'keras.ops.cast({variable}, "float32")'
        if "keras" in made:
            self.notes[f"{column.original} in x: {made}"] = None
        elif not origin.is_own:
            self.writer.learnt[f"scale of {column.original}"] = None
        return made

    def _looked_up(self, origins: Sequence[Origin]) -> str:
        """Return the expression of the numbers that stand for the texts of one column."""
        column = origins[0].column
        texts = column.distinct[0].tolist()
        tables = np.array([origin.table for origin in origins]).T
        unknown = tables.min(axis=0).tolist()
        least = ", ".join(map(number, dict.fromkeys(unknown)))
        self.notes[f"{column.original} has numbers for its texts in x, an unknown one {least}"] = (
            None
        )
        self.writer.learnt[f"{len(texts):,} texts of {column.original}"] = None
        vocabulary = self.writer.listed(f"texts of {column.name}", texts)
        lookup = f"keras.layers.StringLookup(vocabulary={vocabulary})"
        index = self._line(column.name, f"{lookup}({column.expression})")
        values = self.writer.listed(f"numbers of {column.name}", [unknown, *tables.tolist()])
        taken = f"keras.ops.take(keras.ops.array({values}), {index}, axis=0)"
        return f"keras.ops.reshape({taken}, (-1, {len(origins)}))"

    def _line(self, name: str, expression: str) -> str:
        variable = f"of_{len(self.lines)}_" + re.sub(r"\W", "_", name)
        self.lines.append(f"{variable} = {expression}")
        return variable
