"""How many rows repeat the key of another one, in bounded memory and merged in any order.

Of each key only a 64-bit hash is kept, with how often it occurred, and of the hashes only the
smallest MAX_KEYS: up to so many different keys the count is exact (two keys of one hash are one in
30 million tables). Of more keys the kept ones are a sample, the same in every run and however the
rows were parted, and the count is what the sample's share makes of all rows.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from components.prepare_examples.splitting import hash_rows
from trainer.json_types import Json

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

KEY = "unique_key"
MAX_KEYS = 1 << 20


@dataclass
class KeyCounts:
    """The smallest hashes of keys, rising, and how often each occurred."""

    num_rows: int = 0
    is_exact: bool = True
    hashes: "NDArray[np.uint64] | None" = None
    counts: "NDArray[np.int64] | None" = None
    pending: "list[NDArray[np.uint64]]" = field(default_factory=list)

    def add(self, keys: "pa.Array") -> None:
        """Counts a column of texts; rows without a key are left out."""
        hashes = hash_rows([keys.drop_null()])
        self.num_rows += len(hashes)
        self.pending.append(hashes)
        if sum(map(len, self.pending)) > MAX_KEYS:
            self._settle()

    def merge(self, other: "KeyCounts") -> None:
        """Adds what another one has counted."""
        self.num_rows += other.num_rows
        self.is_exact = self.is_exact and other.is_exact
        self._settle(other.kept())

    def kept(self) -> "tuple[NDArray[np.uint64], NDArray[np.int64]]":
        """The hashes and their counts."""
        if self.pending or self.hashes is None or self.counts is None:
            self._settle()
        assert self.hashes is not None
        assert self.counts is not None
        return self.hashes, self.counts

    def _settle(self, more: "tuple[NDArray[np.uint64], NDArray[np.int64]] | None" = None) -> None:
        import numpy as np

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
        """The manifest's entry: the rows whose key an earlier row has."""
        _, counts = self.kept()
        found, num_kept = int((counts - 1).sum()), int(counts.sum())
        num_repeated = found if self.is_exact else found * self.num_rows // max(num_kept, 1)
        return {"column": KEY, "num_rows": num_repeated, "is_exact": self.is_exact}

    def to_state(self) -> Json:
        """Plain values, to travel through Beam."""
        hashes, counts = self.kept()
        return {
            "num_rows": self.num_rows,
            "is_exact": self.is_exact,
            "hashes": hashes.tobytes(),
            "counts": counts.tobytes(),
        }

    @classmethod
    def from_state(cls, state: Json) -> "KeyCounts":
        """The inverse of `to_state`."""
        import numpy as np

        hashes = np.frombuffer(state["hashes"], np.uint64)
        counts = np.frombuffer(state["counts"], np.int64)
        return cls(state["num_rows"], state["is_exact"], hashes, counts)


def merge_keys(one: Json | None, other: Json | None) -> Json | None:
    """Merges two states; None is that of a table without keys."""
    if one is None or other is None:
        return one or other
    merged = KeyCounts.from_state(one)
    merged.merge(KeyCounts.from_state(other))
    return merged.to_state()
