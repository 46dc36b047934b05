"""Category numbers and tokens of raw columns, computed in the graph without lookup tables.

A TensorFlow lookup table is a resource of one process: tf.data on a remote worker cannot use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainer import Json
from trainer.errors import TextError
from trainer.runtime.lazy import tf

MISSING, UNKNOWN, FIRST = 0, 1, 2  # other categories are numbered from FIRST

_NUM_HASHES = 2**63 - 1
_MIXING = np.uint64(0x9E3779B97F4A7C15)  # of which all bits of a product depend on the factor


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The distinct values of a column in ascending order, without missing ones, and their counts.

    If they are `percentiles`, the values are the 101 percentiles 0 to 100, each counted once.
    """

    values: np.ndarray
    counts: np.ndarray
    is_percentiles: bool = False

    @classmethod
    def of_column(cls, column: np.ndarray) -> "Distribution":
        """Return the distribution of a column of floats (NaN is missing) or bytes (empty is)."""
        is_known = column != b"" if column.dtype == object else np.isfinite(column)
        values, counts = np.unique(column[is_known], return_counts=True)
        return cls(values=values, counts=counts)

    @classmethod
    def of_numbers(cls, feature: Json) -> "Distribution":
        """Return the distribution of a FLOAT feature of statistics.json, in float32 as stored."""
        pairs = sorted(feature["top_values"])
        if len(pairs) == feature["num_unique"]:
            numbers = np.array([value for value, _ in pairs], np.float32)
            counts = np.array([count for _, count in pairs], np.int64)
            return cls(values=numbers, counts=counts)
        values = np.array(feature["quantiles"], np.float32)
        return cls(values=values, counts=np.ones(len(values), np.int64), is_percentiles=True)

    def clipped(self, limits: Sequence[float] | None) -> "Distribution":
        """Return the distribution of the values limited to [low, high], if that is given."""
        if limits is None:
            return self
        low, high = limits
        return replace(self, values=self.values.clip(low, high))

    def quantiles(self, shares: Any) -> list[float]:
        """Return the values that these shares of all do not exceed; [] without values."""
        if not self.values.size:
            return []
        ranks = np.rint(np.asarray(shares) * (self.counts.sum() - 1))
        places = np.searchsorted(np.cumsum(self.counts), ranks, side="right")
        return self.values[places].tolist()

    def boundaries(self, num_buckets: int) -> list[float]:
        """Return the distinct quantiles that divide the known values into buckets of equal size."""
        return sorted(set(self.quantiles(np.linspace(0, 1, num_buckets + 1)[1:-1])))

    def moments(self, *, is_logarithmic: bool = False) -> list[float]:
        """Return mean and standard deviation of the values, or of log(1 + value)."""
        values, counts = self.values.astype(np.float64), self.counts
        if is_logarithmic and self.is_percentiles:
            # The least and the greatest value are single rows: as percentiles they would weigh too
            # much.
            values, counts = values[1:-1], counts[1:-1]
        if not values.size:
            return [0.0, 1.0]
        if is_logarithmic:
            values = np.log1p(np.maximum(values, 0))
        mean = np.average(values, weights=counts)
        deviation = float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))
        return [float(mean), deviation if values[0] < values[-1] else 1.0]


def make_vocabulary(counts: Mapping[str, int], *, max_terms: int, min_count: int) -> list[str]:
    """Return the terms that occur `min_count` times or more, the most frequent first."""
    ranked = sorted(counts, key=lambda term: (-counts[term], term.encode()))
    return [term for term in ranked[:max_terms] if counts[term] >= min_count]


def bucketize(values: Any, *, boundaries: Sequence[Sequence[float]]) -> Any:
    """Return the bucket of each number [batch, columns], from 2; MISSING for NaN."""
    most = max(1, *map(len, boundaries))
    # Beyond a column's last boundary no number is finite.
    padded = [[*column, *[np.inf] * (most - len(column))] for column in boundaries]
    ranked = tf.constant(padded, tf.float32, [len(boundaries), most])
    buckets = tf.searchsorted(ranked, tf.transpose(values), side="right") + FIRST
    return tf.where(tf.math.is_finite(values), tf.transpose(buckets), MISSING)


def number_terms(values: Any, *, vocabularies: Sequence[Sequence[str]]) -> Any:
    """Return the position of each text [batch, columns] in its column's vocabulary, from 2.

    It is MISSING for an empty text. A single vocabulary serves all columns. All vocabularies
    are one table, in which the hashes of a column's terms are mixed with a number of the column.
    """
    sizes = np.array(list(map(len, vocabularies)), np.int32)
    if not sizes.any():
        return tf.where(values == "", MISSING, UNKNOWN)
    mixed = (np.arange(len(sizes), dtype=np.uint64) * _MIXING % 2**63).astype(np.int64)
    with tf.init_scope():  # once, not in each call of the graph
        terms = tf.constant([term for vocabulary in vocabularies for term in vocabulary])
        hashes = tf.strings.to_hash_bucket_fast(terms, _NUM_HASHES).numpy()
    keys = hashes ^ np.repeat(mixed, sizes)
    order = np.argsort(keys, kind="stable").astype(np.int32)
    wanted = tf.bitwise.bitwise_xor(tf.strings.to_hash_bucket_fast(values, _NUM_HASHES), mixed)
    places = tf.searchsorted(keys[order], tf.reshape(wanted, [-1]))
    nearest = tf.reshape(tf.minimum(places, len(keys) - 1), tf.shape(wanted))
    numbers = tf.gather(order, nearest) - np.cumsum([0, *sizes[:-1]], dtype=np.int32)
    is_known = (tf.gather(keys[order], nearest) == wanted) & (numbers >= 0) & (numbers < sizes)
    return tf.where(values == "", MISSING, tf.where(is_known, numbers + FIRST, UNKNOWN))


def number_hashes(values: Any, *, num_hashes: int) -> Any:
    """Return the hash of each text as a number from 2; MISSING for an empty text."""
    hashes = tf.cast(tf.strings.to_hash_bucket_fast(values, num_hashes), tf.int32)
    return tf.where(values == "", MISSING, hashes + FIRST)


def number_integers(
    values: Any, *, low: Sequence[int], high: Sequence[int], missing: Sequence[int]
) -> Any:
    """Return low…high of each column [batch, columns] as numbers from 2.

    It is MISSING for the column's `missing`, UNKNOWN for any other number.
    """
    lowest = tf.constant(low, tf.int64)
    is_known = (values >= lowest) & (values <= tf.constant(high, tf.int64))
    unknown = tf.where(values == tf.constant(missing, tf.int64), MISSING, UNKNOWN)
    known = tf.where(is_known, values - lowest, 0)
    return tf.where(is_known, tf.cast(known, tf.int32) + FIRST, unknown)


def number_combinations(
    names: Sequence[str], categories: Mapping[str, Any], sizes: Mapping[str, int]
) -> Any:
    """Return the number of each combination of categories of the named columns."""
    numbers = categories[names[0]]
    for name in names[1:]:
        numbers = numbers * sizes[name] + categories[name]
    return numbers


def num_categories(size: int) -> int:
    """Return the category numbers of a column of `size` categories, with MISSING and UNKNOWN."""
    return size + FIRST


PUNCTUATION = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'"
_PATTERN = "[" + "".join(f"\\{sign}" for sign in PUNCTUATION) + "]"


def decode_text(value: bytes, *, feature: str) -> str:
    """Return the text of a value of a feature; TextError if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise TextError(feature, value) from error


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text, in order, as `tokenize` does."""
    plain = text.lower().encode(errors="replace").translate(None, PUNCTUATION.encode())
    return [token.decode() for token in plain.split()]


def tokenize(texts: Any, *, max_length: int) -> Any:
    """Return the first tokens of each text, [batch, max_length], padded with empty ones.

    They follow keras.layers.TextVectorization, whose default standardization is lower case without
    punctuation, split at white space; but letters outside ASCII become lower case, too.
    """
    plain = tf.strings.regex_replace(tf.strings.lower(texts, encoding="utf-8"), _PATTERN, "")
    return tf.strings.split(plain).to_tensor(default_value="", shape=[None, max_length])
