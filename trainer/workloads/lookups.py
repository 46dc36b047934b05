"""From raw columns to numbers of categories, inside the graph and without a table's resource.

A table of TensorFlow is a resource of one process: tf.data on a remote worker could not use it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MISSING, UNKNOWN = 0, 1
"""Every category counts from 2 on, after these."""

_NUM_HASHES = 2**63 - 1
_FIRST = 2


def make_boundaries(values: np.ndarray, num_buckets: int) -> list[float]:
    """Returns the distinct quantiles that cut the known values into buckets of even size."""
    known = values[np.isfinite(values)]
    if not known.size:
        return []
    inner = np.linspace(0, 1, num_buckets + 1)[1:-1]
    quantiles = np.quantile(known, inner, method="nearest").tolist()
    return sorted(set(quantiles))


def make_vocabulary(values: np.ndarray, *, max_terms: int, min_count: int) -> list[str]:
    """Returns the terms of a column of bytes, the most frequent first; missing is no term."""
    terms, counts = np.unique(values[values != b""], return_counts=True)
    ranked = sorted(zip((-counts).tolist(), terms.tolist(), strict=True))
    return [term.decode() for count, term in ranked[:max_terms] if -count >= min_count]


def bucketize(values: Any, boundaries: Sequence[float]) -> Any:
    """Returns the bucket of each number, from 2; MISSING for one that is not a number."""
    import tensorflow as tf

    buckets = tf.raw_ops.Bucketize(input=values, boundaries=list(boundaries)) + _FIRST
    return tf.where(tf.math.is_finite(values), buckets, MISSING)


def number_terms(values: Any, vocabulary: Sequence[str]) -> Any:
    """Returns the position of each text in the vocabulary, from 2; MISSING for an empty text."""
    import tensorflow as tf

    if not vocabulary:
        return tf.where(values == "", MISSING, UNKNOWN)
    hashes = tf.strings.to_hash_bucket_fast(tf.constant(list(vocabulary)), _NUM_HASHES)
    order = tf.argsort(hashes, stable=True)
    ranked = tf.gather(hashes, order)
    wanted = tf.strings.to_hash_bucket_fast(values, _NUM_HASHES)
    nearest = tf.minimum(tf.searchsorted(ranked, wanted), len(vocabulary) - 1)
    found = tf.gather(ranked, nearest) == wanted
    numbers = tf.where(found, tf.gather(order, nearest) + _FIRST, UNKNOWN)
    return tf.where(values == "", MISSING, numbers)


def number_integers(values: Any, *, low: int, high: int) -> Any:
    """Returns low…high as 2 and so on; MISSING for -1, UNKNOWN for any other number."""
    import tensorflow as tf

    numbers = tf.cast(values, tf.int32)
    is_known = (numbers >= low) & (numbers <= high)
    return tf.where(is_known, numbers - low + _FIRST, tf.where(numbers == -1, MISSING, UNKNOWN))


def number_combinations(
    names: Sequence[str], categories: Mapping[str, Any], sizes: Mapping[str, int]
) -> Any:
    """Returns the number of each combination of categories of the named columns."""
    numbers = categories[names[0]]
    for name in names[1:]:
        numbers = numbers * sizes[name] + categories[name]
    return numbers


def num_categories(size: int) -> int:
    """Returns how many numbers a column of `size` categories has, MISSING and UNKNOWN included."""
    return size + _FIRST
