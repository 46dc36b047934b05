"""Front of a model: its inputs, made of the file's own values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.projects.literals import SourceText, quoted
from pipelines.projects.scripts.origins import LAYERS, Array, FileColumn, Origin, origins_of
from pipelines.projects.scripts.source import Writer, joined


@dataclass
class Front:
    """The inputs of a model.

    Attributes:
        used: the columns that the model gets; True for one with a value for a missing one.
        notes: what was made of columns outside the model.
    """

    columns: Sequence[FileColumn]
    writer: Writer
    used: dict[FileColumn, bool] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def tensor(self, given: Array, names: Sequence[str], *, keeps_integers: bool) -> SourceText:
        """Return the expression of a tensor of x.

        Raises:
            ScriptFault: no column of the file has these values.
        """
        layers = [value for value in self.writer.variables.values() if isinstance(value, LAYERS)]
        origins = origins_of(given.reshape(len(given), -1), names, self.columns, layers)
        for origin in origins:
            self.used[origin.column] = origin.is_filled or self.used.get(origin.column, False)
        parts = list(map(self._expression, origins))
        made = joined("keras.layers.Concatenate()([", parts, "])") if len(parts) > 1 else parts[0]
        if keeps_integers and given.dtype.kind == "i":
            made = f'keras.ops.cast({made}, "{given.dtype}")'
        if given.ndim == 1:
            made = f"keras.ops.squeeze({made}, -1)"
        if given.ndim > 2:  # noqa: PLR2004
            made = f"keras.ops.reshape({made}, {(-1, *given.shape[1:])})"
        return SourceText(made)

    def _expression(self, origin: Origin) -> str:
        column, made = origin.column, origin.made
        own, name = column.expression, column.original
        told = f"{name} in x: {made}"
        if origin.layer:
            told = f"{name}: {type(origin.layer).__name__} is within the model now"
            made = f'keras.ops.cast({self.writer.of(origin.layer)}({own}), "float32")'
        elif origin.table:
            texts, table = column.distinct[0].tolist(), origin.table
            self.writer.learnt[f"{len(texts):,} texts of {name}"] = None
            if sorted(table) == [0.0] * (len(table) - 1) + [1.0]:
                told = f"{name} is one-hot in x, all 0 for an unknown text"
                is_text = f"keras.ops.equal({own}, {quoted(texts[table.index(1)])})"
                made = f'keras.ops.cast({is_text}, "float32")'
            else:
                unknown = min(table)
                told = f"{name} is a number for each text in x, {unknown:g} for an unknown one"
                vocabulary = self.writer.listed(f"texts of {name}", texts)
                numbers = self.writer.listed(f"numbers of {name}", [unknown, *table])
                index = f"keras.layers.StringLookup(vocabulary={vocabulary})({own})"
                made = f"keras.ops.take(keras.ops.array({numbers}), {index})"
        elif "keras" not in made:
            if made != own:
                self.writer.learnt[f"scale of {name}"] = None
            return made
        self.notes[told] = None
        return made
