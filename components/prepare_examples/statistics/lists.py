"""Statistics of lists: of their values, one by one, and of their lengths."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.texts import Strings
from trainer import Json

MAX_VALUES = 1 << 18  # counted at once: sorting takes many times their memory


@dataclass
class Lists:
    """Counts of the values of lists; an example with an empty list has the feature."""

    values: Numbers | Strings
    num_missing: int = 0
    num_present: int = 0
    num_values: int = 0
    min_length: int | None = None
    max_length: int | None = None

    def add(self, column: pa.Array) -> None:
        """Count a column of lists or nulls."""
        self.num_missing += column.null_count
        present = column.drop_null()
        if not len(present):
            return
        lengths = pc.min_max(pc.list_value_length(present)).as_py()
        values = pc.list_flatten(present)
        for start in range(0, len(values), MAX_VALUES):
            self.values.add(values[start : start + MAX_VALUES])
        self._count(len(present), len(values), lengths["min"], lengths["max"])

    def merge(self, other: "Lists") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.values.merge(other.values)  # type: ignore[arg-type]
        if other.min_length is not None and other.max_length is not None:
            counts = (other.num_present, other.num_values)
            self._count(*counts, other.min_length, other.max_length)

    def _count(self, num_present: int, num_values: int, shortest: int, longest: int) -> None:
        self.num_present += num_present
        self.num_values += num_values
        self.min_length = shortest if self.min_length is None else min(self.min_length, shortest)
        self.max_length = longest if self.max_length is None else max(self.max_length, longest)

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        return {
            **self.values.summary(),
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "is_list": True,
            "num_values": self.num_values,
            "min_length": self.min_length,
            "max_length": self.max_length,
        }
