"""Which split a row is in: a hash of its key that no run, runner or machine changes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from components.prepare_examples.errors import DataError
from components.prepare_examples.tfrecords.shards import SPLITS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

DEFAULT_RATIOS = {"train": 0.8, "eval": 0.1, "test": 0.1}
MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
MISSING = 0x5851F42D4C957F2D


def check_ratios(ratios: Mapping[str, float]) -> dict[str, float]:
    """The ratios in the order of SPLITS, scaled to a sum of one.

    Raises:
        DataError: a split is unknown, missing or would be empty.
    """
    if set(ratios) != set(SPLITS):
        raise DataError(f"ratios are given for {sorted(ratios)}; give one for each of {SPLITS}")
    for name, ratio in ratios.items():
        if not ratio > 0 or ratio == float("inf"):
            raise DataError(
                f"the {name} split would be empty: its ratio is {ratio}; it must be positive"
            )
    total = sum(ratios.values())
    return {name: ratios[name] / total for name in SPLITS}


def split_numbers(hashes: "NDArray[np.uint64]", ratios: Mapping[str, float]) -> "NDArray[np.int64]":
    """For each hash, the number of its split in SPLITS."""
    import numpy as np

    first_hashes, total = [], 0.0
    for name in SPLITS[:-1]:
        total += ratios[name]
        first_hashes.append(min(round(total * 2**64), 2**64 - 1))
    return np.searchsorted(np.array(first_hashes, np.uint64), hashes, side="right")


def hash_rows(columns: "Sequence[pa.Array]") -> "NDArray[np.uint64]":
    """A 64-bit hash of each row over the columns, which hold integers or texts."""
    import numpy as np

    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = _mix(hashes * np.uint64(MULTIPLIER) + _hash_column(column))
    return hashes


def _hash_column(column: "pa.Array") -> "NDArray[np.uint64]":
    import numpy as np
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        hashes = _mix(values.view(np.uint64))
    else:
        hashes = _hash_texts(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return np.where(missing, np.uint64(MISSING), hashes)


def _hash_texts(column: "pa.Array") -> "NDArray[np.uint64]":
    """The polynomial of each text's bytes, modulo 2^64, and mixed."""
    import numpy as np
    import pyarrow as pa

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
    return _mix(sums[ends[1:]] - sums[ends[:-1]])


def _mix(values: "NDArray[np.uint64]") -> "NDArray[np.uint64]":
    """The finaliser of splitmix64: every bit of the result depends on every bit."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
