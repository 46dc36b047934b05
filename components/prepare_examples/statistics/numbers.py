"""Distributions of numbers, in bounded memory and merged in any order."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainer import Json

MAX_BINS = 4096
MAX_PENDING = 8 * MAX_BINS
NUM_TOP_VALUES = 1000
NUM_FLOATS = 100  # top values of splits from which nothing is learnt
MOST_BITS = 63  # of a float64, without its sign

# Every float is an integer multiple of 1 / UNITS, so sums are exact in any order.
UNITS = 1 << 1074


@dataclass
class Numbers:
    """The distribution of a number.

    Up to MAX_BINS distinct values are counted exactly. Beyond that, low bits of their mantissas are
    dropped, one by one, until MAX_BINS suffice. The number of dropped bits depends only on the set
    of values, so the result is the same for any partition and order of merging.
    """

    type: str
    num_missing: int = 0
    total: int = 0
    total_squares: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    dropped_bits: int = 0
    values: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    pending: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = field(default_factory=list)
    num_listed: int = NUM_TOP_VALUES
    is_time: bool = False

    def add(self, column: pa.Array) -> None:
        """Count a column of finite numbers or nulls."""
        self.num_missing += column.null_count
        counted = column.drop_null().value_counts()
        if not len(counted):
            return
        values = np.asarray(counted.field("values"), np.float64)
        counts = np.asarray(counted.field("counts"), np.int64)
        order = np.argsort(values)
        values, counts = values[order] + 0.0, counts[order]  # + 0.0: no negative zero
        self._sum(values, counts)
        self.minimum = min(self.minimum, float(values[0]))
        self.maximum = max(self.maximum, float(values[-1]))
        self.pending.append((values, counts))
        if sum(len(values) for values, _ in self.pending) > MAX_PENDING:
            self._flush()

    def _sum(self, values: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        """Add to the sums, by distances from one value: squares of large ids would lose them."""
        pivot = float(values[len(values) // 2])
        distances = values - pivot
        # Not `distances @ counts`: BLAS adds in an order that depends on the number of cores, and
        # its threads wait in a loop, on the cores of other processes.
        products = distances * counts
        num_values, origin = int(counts.sum()), _units(pivot)
        from_origin = _units(float(products.sum()))
        self.total += from_origin + num_values * origin
        self.total_squares += _units(float((products * distances).sum()))
        self.total_squares += origin * (2 * from_origin + num_values * origin) // UNITS

    def merge(self, other: "Numbers") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.total += other.total
        self.total_squares += other.total_squares
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.dropped_bits = max(self.dropped_bits, other.dropped_bits)
        self.pending.append(other.bins())
        self._flush()

    def bins(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the values, ascending (the edges of bins nearer to zero), with their counts."""
        self._flush()
        return self.values, self.counts

    def _flush(self) -> None:
        if not self.pending:
            return
        values = np.concatenate([self.values, *(part for part, _ in self.pending)])
        counts = np.concatenate([self.counts, *(part for _, part in self.pending)])
        self.pending = []
        values = _coarse(values, self.dropped_bits)
        order = np.argsort(values, kind="stable")
        values, counts = _merged(values[order], counts[order])
        if len(values) > MAX_BINS:
            self.dropped_bits = _bits_to_drop(values, self.dropped_bits)
            values, counts = _merged(_coarse(values, self.dropped_bits), counts)
        self.values, self.counts = values, counts

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
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
            "top_values": self._top_values(),
            **({"is_time": True} if self.is_time else {}),
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
        values, counts = self.bins()
        if not len(values):
            return None
        ranks = np.ceil(np.arange(101) / 100 * counts.sum()).clip(1)
        middles = self._middles()[np.searchsorted(np.cumsum(counts), ranks)]
        return [self._plain(value) for value in middles]

    def _top_values(self) -> list[list[Any]]:
        if self.dropped_bits:
            return []
        values, counts = self.bins()
        if self.type == "FLOAT" and len(values) > self.num_listed:
            values, counts = values[counts > 1], counts[counts > 1]
        first = np.lexsort((values, -counts))[: self.num_listed]
        return [[self._plain(values[at]), int(counts[at])] for at in first]

    def _middles(self) -> NDArray[np.float64]:
        values, _ = self.bins()
        if not self.dropped_bits:
            return values
        half = np.int64(1) << np.int64(self.dropped_bits - 1)
        middles = (values.view(np.int64) | half).view(np.float64)
        return middles.clip(self.minimum, self.maximum)

    def _plain(self, value: float | np.float64) -> float | int:
        return round(float(value)) if self.type == "INT" else float(value)

    def __getstate__(self) -> dict[str, Any]:
        """Return the bins alone: what is pending would be many times as much."""
        self._flush()
        return vars(self)


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (UNITS // denominator)


def _coarse(values: NDArray[np.float64], dropped_bits: int) -> NDArray[np.float64]:
    """Return the values with the lowest bits of their mantissas set to zero."""
    bits = np.int64(dropped_bits)
    return ((values.view(np.int64) >> bits) << bits).view(np.float64)


def _merged(
    values: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distinct values of an ascending array, and the sums of their counts."""
    if not len(values):
        return values, counts
    firsts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[firsts], np.add.reduceat(counts, firsts)


def _bits_to_drop(values: NDArray[np.float64], dropped_bits: int) -> int:
    """Return the least number of bits, above `dropped_bits`, that leaves MAX_BINS values.

    More dropped bits never leave more values, so a binary search finds it.
    """
    low, high = dropped_bits + 1, MOST_BITS
    while low < high:
        middle = (low + high) // 2
        coarse = _coarse(values, middle)
        if np.count_nonzero(coarse[1:] != coarse[:-1]) < MAX_BINS:
            high = middle
        else:
            low = middle + 1
    return low
