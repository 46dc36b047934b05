"""Assignment of rows to splits by a hash of their key, the same in every run and on any machine."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.prepare_examples.tfrecords.shards import SPLITS

MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
MISSING = 0x5851F42D4C957F2D


def split_numbers(hashes: NDArray[np.uint64], ratios: Mapping[str, float]) -> NDArray[np.int64]:
    """Return for each hash the number of its split in SPLITS."""
    first_hashes, total = [], 0.0
    for name in SPLITS[:-1]:
        total += ratios[name]
        first_hashes.append(min(round(total * 2**64), 2**64 - 1))
    return np.searchsorted(np.array(first_hashes, np.uint64), hashes, side="right")


def hash_rows(columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each row, over columns of integers, floats or texts."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = mix(hashes * np.uint64(MULTIPLIER) + _hash_column(column))
    return hashes


def _hash_column(column: pa.Array) -> NDArray[np.uint64]:
    if pa.types.is_integer(column.type):
        values = np.asarray(column.fill_null(0), np.int64)
        hashes = mix(values.view(np.uint64))
    elif pa.types.is_floating(column.type):
        floats = np.asarray(column.fill_null(0), np.float64) + 0.0
        hashes = mix(floats.view(np.uint64))
    else:
        hashes = _hash_texts(column)
    return np.where(column.is_null(), np.uint64(MISSING), hashes)


def _hash_texts(column: pa.Array) -> NDArray[np.uint64]:
    """Return a hash of each text: a polynomial of its bytes modulo 2^64, mixed."""
    texts = pa.concat_arrays([column.cast(pa.large_binary()).fill_null(b"")])
    _, offsets_buffer, data_buffer = texts.buffers()
    starts = np.frombuffer(offsets_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(starts)
    if data_buffer is None or not lengths.any():
        return np.zeros(len(texts), np.uint64)
    data = np.frombuffer(data_buffer, np.uint8)[starts[0] : starts[-1]].astype(np.uint64)
    places = np.arange(len(data)) - np.repeat(starts[:-1] - starts[0], lengths)
    powers = np.cumprod(np.full(int(lengths.max()), MULTIPLIER, np.uint64))
    sums = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum((data + np.uint64(1)) * powers[places])]
    )
    ends = starts - starts[0]
    return mix(sums[ends[1:]] - sums[ends[:-1]])


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the values mixed by splitmix64's finaliser: each bit depends on all bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
