"""Counts of texts, in bounded memory and merged in any order."""

import hashlib
from dataclasses import dataclass, field

import pyarrow as pa

from components.prepare_examples.statistics.numbers import NUM_TOP_VALUES
from trainer import Json

MAX_STRINGS = 20_000


@dataclass
class Strings:
    """Counts of texts; beyond MAX_STRINGS distinct ones, of a sample by hash."""

    type: str = "STRING"
    num_missing: int = 0
    num_present: int = 0
    is_exact: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    num_listed: int = NUM_TOP_VALUES

    def add(self, column: pa.Array) -> None:
        """Count a column of texts or nulls."""
        self.num_missing += column.null_count
        counted = column.drop_null().value_counts()
        pairs = zip(
            counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
        )
        self._count(dict(pairs))

    def merge(self, other: "Strings") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.num_present += other.num_present - sum(other.counts.values())
        self.is_exact = self.is_exact and other.is_exact
        self._count(other.counts)

    def _count(self, counts: dict[str, int]) -> None:
        self.num_present += sum(counts.values())
        for value, count in counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > MAX_STRINGS:
            self.is_exact = False
            kept = sorted(self.counts, key=_text_hash)[:MAX_STRINGS]
            self.counts = {value: self.counts[value] for value in kept}

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return {
            "type": self.type,
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "num_unique": len(self.counts),
            "is_exact": self.is_exact,
            "top_values": [list(item) for item in ranked[: self.num_listed]],
        }


def _text_hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
