"""Counts of rows that repeat the key of another row, in bounded memory and merged in any order.

Only a 64-bit hash of each key is kept, with its count, and only the smallest MAX_KEYS hashes. Up to
that many distinct keys the count is exact (one table in 30 million has two keys of one hash).
Beyond that the kept keys are a sample, the same in every run and for every partition of the rows,
and the count is extrapolated from it.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.prepare_examples.tfrecords.row_splits import hash_rows
from trainer import Json

MAX_KEYS = 1 << 20


@dataclass
class KeyCounts:
    """The smallest hashes of keys, in ascending order, with their counts."""

    num_rows: int = 0
    is_exact: bool = True
    hashes: NDArray[np.uint64] | None = None
    counts: NDArray[np.int64] | None = None
    pending: list[NDArray[np.uint64]] = field(default_factory=list)

    def add(self, keys: pa.Array) -> None:
        """Count a column of texts; rows without a key are ignored."""
        hashes = hash_rows([keys.drop_null()])
        self.num_rows += len(hashes)
        self.pending.append(hashes)
        if sum(map(len, self.pending)) > MAX_KEYS:
            self._flush()

    def merge(self, other: "KeyCounts") -> None:
        """Add the counts of another instance."""
        self.num_rows += other.num_rows
        self.is_exact = self.is_exact and other.is_exact
        self._flush(other.kept())

    def kept(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the hashes and their counts."""
        if self.pending or self.hashes is None or self.counts is None:
            self._flush()
        assert self.hashes is not None
        assert self.counts is not None
        return self.hashes, self.counts

    def _flush(self, more: tuple[NDArray[np.uint64], NDArray[np.int64]] | None = None) -> None:
        new = np.concatenate([np.empty(0, np.uint64), *self.pending])
        parts = [(new, np.ones(len(new), np.int64)), *([more] if more else [])]
        if self.hashes is not None and self.counts is not None:
            parts.append((self.hashes, self.counts))
        self.pending = []
        hashes, places = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
        counts = np.zeros(len(hashes), np.int64)
        np.add.at(counts, places, np.concatenate([p[1] for p in parts]))
        self.is_exact = self.is_exact and len(hashes) <= MAX_KEYS
        self.hashes, self.counts = hashes[:MAX_KEYS], counts[:MAX_KEYS]

    def summary(self) -> Json:
        """Return the manifest's entry: the number of rows with the key of an earlier row."""
        _, counts = self.kept()
        found, num_kept = int((counts - 1).sum()), int(counts.sum())
        num_repeated = found if self.is_exact else found * self.num_rows // max(num_kept, 1)
        return {"num_rows": num_repeated, "is_exact": self.is_exact}

    def to_state(self) -> Json:
        """Return plain values, to pass through Beam."""
        hashes, counts = self.kept()
        return {
            "num_rows": self.num_rows,
            "is_exact": self.is_exact,
            "hashes": hashes.tobytes(),
            "counts": counts.tobytes(),
        }

    @classmethod
    def from_state(cls, state: Json) -> "KeyCounts":
        """Return the instance of a state from `to_state`."""
        hashes = np.frombuffer(state["hashes"], np.uint64)
        counts = np.frombuffer(state["counts"], np.int64)
        return cls(state["num_rows"], state["is_exact"], hashes, counts)


def merge_keys(one: Json | None, other: Json | None) -> Json | None:
    """Return two states merged; None is the state of a table without keys."""
    if one is None or other is None:
        return one or other
    merged = KeyCounts.from_state(one)
    merged.merge(KeyCounts.from_state(other))
    return merged.to_state()
