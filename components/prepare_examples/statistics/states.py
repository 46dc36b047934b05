"""Statistics of columns, merged in any order.

Texts are split as the model does (trainer.workloads.encoding.lookups) and
keras.layers.TextVectorization: lower case, without punctuation, at white space.

`statistics.json` in an examples folder:

    {"workload": "taxi",
     "splits": {"train": {"num_examples": N, "features": {NAME: FEATURE, …}}, "eval": …, "test": …}}

A FEATURE of a table has

    "type"         "FLOAT", "INT" or "STRING" (a bytes_list of UTF-8 in the examples)
    "num_present"  number of examples with the feature; "num_missing": without it
    "num_unique"   number of distinct values; a lower bound if "is_exact" is false
    "is_exact"     whether num_unique and top_values are (up to MAX_BINS numbers, MAX_STRINGS texts)
    "top_values"   [[value, count], …], the most frequent first, at most NUM_TOP_VALUES (NUM_FLOATS
                   of a FLOAT in eval and test); of FLOATs with more, only those that occur again

and, for numbers (null if no example has the feature),

    "min", "max", "mean", "std"  (std of the population)
    "num_zeros"    number of values that are 0
    "quantiles"    101 numbers: quantiles[i] is the i-th percentile, quantiles[50] the median
    "is_time"      true for seconds since 1970 of a wall time; else it is left out

A list also has "is_list": true; its values are counted one by one ("num_present" and "num_missing"
still count examples), and

    "num_values"   number of values in all; "min_length", "max_length" in an example that has any

A Text (declared with `Text`) is of type "STRING", and its tokens are counted instead of its values:
"num_unique" and "top_values" are about tokens, and it has

    "tokens"       [[token, count], …], the most frequent first, at most its max_tokens, in lower
                   case and without punctuation, as keras.layers.TextVectorization makes them

For images, "features" has the single entry `label`, of type "INT" with the classes in "top_values",
and the split has "pixels": {"mean": [a number per channel], "std": […]}, of bytes 0 to 255.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.statistics.numbers import NUM_TOP_VALUES, Numbers
from trainer import Json

MAX_STRINGS = 20_000
# The signs that keras.layers.TextVectorization strips by default.
PUNCTUATION = r"[!\"#$%&()\*\+,-\./:;<=>?@\[\\\]^_`{|}~\']"
# What tf.strings.split takes for white space.
SPACES = r"[ \t\n\r\f\v]+"
# Beyond twice as many, the rare ones of a part are dropped.
MAX_TOKENS = 200_000
MAX_VALUES = 1 << 18  # of lists, counted at once: sorting takes many times their memory


@dataclass
class Strings:
    """Counts of texts; beyond MAX_STRINGS distinct ones, of a sample by hash, in any order."""

    num_missing: int = 0
    num_present: int = 0
    is_exact: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    num_listed: int = NUM_TOP_VALUES

    def add(self, column: pa.Array) -> None:
        """Count a column of texts or nulls."""
        self.num_missing += column.null_count
        present = column.drop_null()
        self.num_present += len(present)
        self._count(counted_texts(self._values(present)))

    def merge(self, other: "Strings") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.num_present += other.num_present
        self.is_exact = self.is_exact and other.is_exact
        self._count(other.counts)

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        return {
            "type": "STRING",
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "num_unique": len(self.counts),
            "is_exact": self.is_exact,
            "top_values": self._ranked(self.num_listed),
        }

    def _count(self, counts: dict[str, int]) -> None:
        self.counts.update(counts)
        kept = self._kept()
        if kept is not None:
            self.is_exact = False
            self.counts = Counter({value: self.counts[value] for value in kept})

    def _ranked(self, most: int) -> list[list[str | int]]:
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return [list(item) for item in ranked[:most]]

    def _values(self, texts: pa.Array) -> pa.Array:
        return texts

    def _kept(self) -> list[str] | None:
        """Return the values to keep, None for all."""
        if len(self.counts) <= MAX_STRINGS:
            return None
        return sorted(
            self.counts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=8).digest()
        )[:MAX_STRINGS]


@dataclass
class Words(Strings):
    """Counts of tokens; beyond 2 * MAX_TOKENS distinct ones, without the rarest.

    Adding and merging in the same order gives the same counts.
    """

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json (see statistics.states)."""
        return {
            **super().summary(),
            "top_values": self._ranked(NUM_TOP_VALUES),
            "tokens": self._ranked(self.num_listed),
        }

    def _values(self, texts: pa.Array) -> pa.Array:
        tokens = pc.list_flatten(split_tokens(texts))
        return tokens.filter(pc.not_equal(tokens, ""))

    def _kept(self) -> list[str] | None:
        if len(self.counts) <= 2 * MAX_TOKENS:
            return None
        return [str(token) for token, _ in self._ranked(MAX_TOKENS)]


def split_tokens(texts: pa.Array) -> pa.Array:
    """Return the tokens of each text, with empty ones at the ends of some."""
    plain = pc.replace_substring_regex(_lower(texts), PUNCTUATION, "")
    return pc.split_pattern_regex(plain, SPACES)


def _lower(texts: pa.Array) -> pa.Array:
    """Return texts in lower case; Arrow's own differs from TensorFlow's in some letters."""
    is_ascii = pc.string_is_ascii(texts)
    if pc.all(is_ascii).as_py() is not False:
        return pc.ascii_lower(texts)
    lowered = [text.lower() for text in texts.filter(pc.invert(is_ascii)).to_pylist()]
    return pc.replace_with_mask(
        pc.ascii_lower(texts), pc.invert(is_ascii), pa.array(lowered, pa.string())
    )


def counted_texts(values: pa.Array) -> dict[str, int]:
    """Return how often each text occurs."""
    counted = values.value_counts()
    columns = (counted.field(name).to_pylist() for name in ("values", "counts"))
    return dict(zip(*columns, strict=True))


@dataclass
class Lists:
    """Counts of the values of lists; an example with an empty list has the feature."""

    values: Numbers | Strings
    num_missing: int = 0
    num_present: int = 0
    num_values: int = 0
    lengths: tuple[int, ...] = ()  # the least and the greatest, if there are any

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
        self._count(len(present), len(values), (lengths["min"], lengths["max"]))

    def merge(self, other: "Lists") -> None:
        """Add the counts of another instance."""
        self.num_missing += other.num_missing
        self.values.merge(other.values)  # type: ignore[arg-type]
        self._count(other.num_present, other.num_values, other.lengths)

    def _count(self, num_present: int, num_values: int, lengths: tuple[int, ...]) -> None:
        self.num_present += num_present
        self.num_values += num_values
        if both := self.lengths + lengths:
            self.lengths = (min(both), max(both))

    def summary(self) -> Json:
        """Return the FEATURE of statistics.json."""
        shortest, longest = self.lengths or (None, None)
        return {
            **self.values.summary(),
            "num_present": self.num_present,
            "num_missing": self.num_missing,
            "is_list": True,
            "num_values": self.num_values,
            "min_length": shortest,
            "max_length": longest,
        }


Statistic = Numbers | Strings | Lists


def new_statistic(
    kind: str, *, is_list: bool = False, num_listed: int = 0, is_time: bool = False
) -> Statistic:
    """Return empty statistics of a column.

    Args:
        kind: of tables.table_schema.Column.
        is_list: True if an example may have several values.
        num_listed: how many values to list; NUM_TOP_VALUES if it is less.
        is_time: True if the numbers are times.
    """
    listed = max(num_listed, NUM_TOP_VALUES)
    statistic: Numbers | Strings
    if kind == "words":
        statistic = Words(num_listed=listed)
    elif kind == "text":
        statistic = Strings(num_listed=listed)
    else:
        stored = "FLOAT" if kind == "float" else "INT"
        statistic = Numbers(stored, num_listed=listed, is_time=is_time)
    return Lists(statistic) if is_list else statistic
