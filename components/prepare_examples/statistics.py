"""What a column of examples is like, found in one pass and merged in any order.

`statistics.json` in an examples folder:

    {"workload": "taxi",
     "splits": {"train": {"num_examples": N, "features": {NAME: FEATURE, …}}, "eval": …, "test": …}}

A FEATURE of a table has

    "type"         "FLOAT", "INT" or "STRING" (a bytes_list of UTF-8 in the examples)
    "num_present"  examples that have the feature; "num_missing": those that do not
    "num_unique"   different values; a lower bound if "is_exact" is false
    "is_exact"     are num_unique and top_values exact? (Up to MAX_BINS numbers, MAX_STRINGS texts.)
    "top_values"   [[value, count], …], the most frequent first, at most NUM_TOP_VALUES

and, if it is a number (null where no example has the feature),

    "min", "max", "mean", "std"  (std of the population)
    "num_zeros"    values that are 0
    "quantiles"    101 numbers: quantiles[i] is the i-th percentile, quantiles[50] the median
    "histogram"    {"edges": [21 numbers], "counts": [20 numbers]}: equal widths from min to max

For images, "features" has one entry, `label`, of the type "INT" with the classes in "top_values",
and the split has "pixels": {"mean": [a number for each channel], "std": […]} of bytes 0 to 255.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MAX_BINS = 4096
MAX_STRINGS = 20_000
MAX_PENDING = 8 * MAX_BINS
NUM_TOP_VALUES = 1000
NUM_BUCKETS = 20

# Every float is a whole number of these, so that sums are exact in whatever order they are made.
UNITS = 1 << 1074

Json = dict[str, Any]


@dataclass
class Numbers:
    """The distribution of a number.

    Values are counted one by one while at most MAX_BINS are different; beyond that, the low bits of
    their mantissas are dropped, one by one, until they are. How many are dropped depends on the set
    of values only, so the result is the same however the values were parted and merged.
    """

    type: str
    num_missing: int = 0
    total: int = 0
    total_squares: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    dropped_bits: int = 0
    values: "NDArray[np.float64] | None" = None
    counts: "NDArray[np.int64] | None" = None
    pending: "list[tuple[NDArray[np.float64], NDArray[np.int64]]]" = field(default_factory=list)

    def add(self, column: "pa.Array") -> None:
        """Counts a column of finite numbers or nulls."""
        import numpy as np

        self.num_missing += column.null_count
        counted = column.drop_null().value_counts()
        if not len(counted):
            return
        values = counted.field("values").to_numpy(zero_copy_only=False).astype(np.float64)
        counts = counted.field("counts").to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(values)
        values, counts = values[order] + 0.0, counts[order]  # + 0.0: no negative zero
        self.total += _units(float(values @ counts))
        self.total_squares += _units(float((values * values) @ counts))
        self.minimum = min(self.minimum, float(values[0]))
        self.maximum = max(self.maximum, float(values[-1]))
        self.pending.append((values, counts))
        if sum(len(some) for some, _ in self.pending) > MAX_PENDING:
            self._settle()

    def merge(self, other: "Numbers") -> None:
        """Adds what another one has counted."""
        self.num_missing += other.num_missing
        self.total += other.total
        self.total_squares += other.total_squares
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.dropped_bits = max(self.dropped_bits, other.dropped_bits)
        self.pending.append(other.bins())
        self._settle()

    def bins(self) -> "tuple[NDArray[np.float64], NDArray[np.int64]]":
        """The values, rising (the edges nearer to zero of their bins), and how many of each."""
        self._settle()
        assert self.values is not None
        assert self.counts is not None
        return self.values, self.counts

    def _settle(self) -> None:
        import numpy as np

        known = [] if self.values is None or self.counts is None else [(self.values, self.counts)]
        parts = [*known, *self.pending]
        self.pending = []
        values = np.concatenate([np.empty(0), *(part for part, _ in parts)])
        counts = np.concatenate([np.empty(0, np.int64), *(part for _, part in parts)])
        values, counts = _grouped(_coarse(values, self.dropped_bits), counts)
        while len(values) > MAX_BINS:
            self.dropped_bits += 1
            values, counts = _grouped(_coarse(values, self.dropped_bits), counts)
        self.values, self.counts = values, counts

    def summary(self) -> Json:
        """The FEATURE of statistics.json."""
        values, counts = self.bins()
        num_present = int(counts.sum())
        return {
            "type": self.type,
            "num_present": num_present,
            "num_missing": self.num_missing,
            "num_unique": len(values),
            "is_exact": self.dropped_bits == 0,
            **self._moments(num_present),
            "num_zeros": int(counts[values == 0].sum()),
            "quantiles": self._quantiles(),
            "histogram": self._histogram(),
            "top_values": self._top_values(),
        }

    def _moments(self, num_present: int) -> Json:
        if num_present == 0:
            return dict.fromkeys(("min", "max", "mean", "std"))
        mean = Fraction(self.total, UNITS * num_present)
        variance = Fraction(self.total_squares, UNITS * num_present) - mean * mean
        return {
            "min": self._plain(self.minimum),
            "max": self._plain(self.maximum),
            "mean": float(mean),
            "std": math.sqrt(max(0.0, float(variance))),
        }

    def _quantiles(self) -> list[float | int] | None:
        import numpy as np

        values, counts = self.bins()
        if not len(values):
            return None
        ranks = np.ceil(np.arange(101) / 100 * counts.sum()).clip(1)
        found = self._middles()[np.searchsorted(np.cumsum(counts), ranks)]
        return [self._plain(value) for value in found]

    def _histogram(self) -> Json | None:
        import numpy as np

        values, counts = self.bins()
        if not len(values):
            return None
        edges = np.linspace(self.minimum, self.maximum, NUM_BUCKETS + 1)
        if self.minimum == self.maximum:
            edges = self.minimum + np.linspace(-0.5, 0.5, NUM_BUCKETS + 1)
        heights, _ = np.histogram(self._middles(), edges, weights=counts)
        return {"edges": edges.tolist(), "counts": heights.astype(np.int64).tolist()}

    def _top_values(self) -> list[list[Any]]:
        import numpy as np

        if self.dropped_bits:
            return []
        values, counts = self.bins()
        first = np.lexsort((values, -counts))[:NUM_TOP_VALUES]
        return [[self._plain(values[at]), int(counts[at])] for at in first]

    def _middles(self) -> "NDArray[np.float64]":
        """The middle of each bin, within the values that were seen."""
        import numpy as np

        values, _ = self.bins()
        if not self.dropped_bits:
            return values
        half = np.int64(1) << np.int64(self.dropped_bits - 1)
        middles = (values.view(np.int64) | half).view(np.float64)
        return middles.clip(self.minimum, self.maximum)

    def _plain(self, value: "float | np.float64") -> float | int:
        return round(float(value)) if self.type == "INT" else float(value)

    def to_state(self) -> Json:
        """Plain values, to travel through Beam."""
        values, counts = self.bins()
        return {
            "type": self.type,
            "num_missing": self.num_missing,
            "total": hex(self.total),
            "total_squares": hex(self.total_squares),
            "minimum": self.minimum,
            "maximum": self.maximum,
            "dropped_bits": self.dropped_bits,
            "values": values.tobytes(),
            "counts": counts.tobytes(),
        }

    @classmethod
    def from_state(cls, state: Json) -> "Numbers":
        """The inverse of `to_state`."""
        import numpy as np

        return cls(
            type=state["type"],
            num_missing=state["num_missing"],
            total=int(state["total"], 16),
            total_squares=int(state["total_squares"], 16),
            minimum=state["minimum"],
            maximum=state["maximum"],
            dropped_bits=state["dropped_bits"],
            values=np.frombuffer(state["values"], np.float64),
            counts=np.frombuffer(state["counts"], np.int64),
        )


@dataclass
class Strings:
    """How often each text occurs; only MAX_STRINGS of them, by their hash, if there are more."""

    type: str = "STRING"
    num_missing: int = 0
    num_present: int = 0
    is_exact: bool = True
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, column: "pa.Array") -> None:
        """Counts a column of texts or nulls."""
        self.num_missing += column.null_count
        counted = column.drop_null().value_counts()
        pairs = zip(
            counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
        )
        self._count(dict(pairs))

    def merge(self, other: "Strings") -> None:
        """Adds what another one has counted."""
        self.num_missing += other.num_missing
        self.num_present += other.num_present - sum(other.counts.values())
        self.is_exact = self.is_exact and other.is_exact
        self._count(other.counts)

    def to_state(self) -> Json:
        """Plain values, to travel through Beam."""
        return {
            "type": self.type,
            "num_missing": self.num_missing,
            "num_present": self.num_present,
            "is_exact": self.is_exact,
            "counts": dict(self.counts),
        }

    @classmethod
    def from_state(cls, state: Json) -> "Strings":
        """The inverse of `to_state`."""
        return cls(**state)

    def _count(self, counts: dict[str, int]) -> None:
        self.num_present += sum(counts.values())
        for value, count in counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > MAX_STRINGS:
            self.is_exact = False
            kept = sorted(self.counts, key=_text_hash)[:MAX_STRINGS]
            self.counts = {value: self.counts[value] for value in kept}

    def summary(self) -> Json:
        """The FEATURE of statistics.json."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return {
            "type": self.type,
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "num_unique": len(self.counts),
            "is_exact": self.is_exact,
            "top_values": [list(item) for item in ranked[:NUM_TOP_VALUES]],
        }


def from_state(state: Json) -> Numbers | Strings:
    """What `to_state` of either class has made."""
    return Strings.from_state(state) if state["type"] == "STRING" else Numbers.from_state(state)


def merge_states(one: Json, other: Json) -> Json:
    """Merges the states of features, by name."""
    merged = {**other, **one}
    for name in one.keys() & other.keys():
        first, second = from_state(one[name]), from_state(other[name])
        first.merge(second)  # type: ignore[arg-type]
        merged[name] = first.to_state()
    return merged


def _text_hash(text: str) -> bytes:
    import hashlib

    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (UNITS // denominator)


def _coarse(values: "NDArray[np.float64]", dropped_bits: int) -> "NDArray[np.float64]":
    """The values with the lowest bits of their mantissas set to zero."""
    import numpy as np

    bits = np.int64(dropped_bits)
    return ((values.view(np.int64) >> bits) << bits).view(np.float64)


def _grouped(
    values: "NDArray[np.float64]", counts: "NDArray[np.int64]"
) -> "tuple[NDArray[np.float64], NDArray[np.int64]]":
    import numpy as np

    unique, places = np.unique(values, return_inverse=True)
    sums = np.zeros(len(unique), np.int64)
    np.add.at(sums, places, counts)
    return unique, sums
