"""The taxi trips: clean columns to the features and the label of tf.train.Example, by split."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from components.prepare_examples.errors import DataError
from components.prepare_examples.splitting import hash_rows, split_numbers
from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.texts import Strings
from components.prepare_examples.tables.columns import (
    FEATURES,
    FLOATS,
    INTS,
    KEYS,
    LABEL,
    STRINGS,
    TIP_SHARE,
)
from components.prepare_examples.tfrecords.table_encoder import encode_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

NAMES = (*FEATURES, LABEL)


def default_key(columns: Sequence[str]) -> tuple[str, ...]:
    """What rows are split by: the trip's id, or its taxi and time, or its time alone.

    Rows of the same key are in the same split. The sample has neither id nor taxi: there, all
    trips that started in the same quarter of an hour go together.
    """
    if "unique_key" in columns:
        return ("unique_key",)
    return tuple(name for name in ("taxi_id", "trip_start_timestamp") if name in columns)


def check_key(key: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to split by.

    Raises:
        DataError: a column is not there, or is no whole number or text; names the allowed ones.
    """
    allowed = [name for name in (*KEYS, *INTS, *STRINGS) if name in columns]
    for name in key:
        if name not in allowed:
            raise DataError(f"split_key is {name!r}; allowed are {', '.join(allowed)}")
    return tuple(key)


def to_examples(table: "pa.Table") -> "pa.Table":
    """Return the features and the label of clean rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {name: table[name].combine_chunks() for name in FEATURES}
    is_big = pc.greater(table["tips"], pc.multiply(table["fare"], TIP_SHARE))
    columns[LABEL] = is_big.combine_chunks().cast(pa.int64())
    return pa.table(columns)


def splits_of(
    table: "pa.Table", *, key: Sequence[str], ratios: Mapping[str, float]
) -> "NDArray[np.int64]":
    """For each clean row, the number of its split."""
    hashes = hash_rows([table[name].combine_chunks() for name in key])
    return split_numbers(hashes, ratios)


def is_complete(examples: "pa.Table") -> "pa.Array":
    """For each row: is every feature present?"""
    import pyarrow as pa
    import pyarrow.compute as pc

    complete = pa.array([True] * examples.num_rows)
    for name in FEATURES:
        complete = pc.and_(complete, examples[name].combine_chunks().is_valid())
    return complete


def new_statistics() -> dict[str, Numbers | Strings]:
    """An empty accumulator for each feature and the label."""
    numbers = {name: Numbers("FLOAT") for name in FLOATS}
    whole = {name: Numbers("INT") for name in (*INTS, LABEL)}
    texts = {name: Strings() for name in STRINGS}
    found: dict[str, Numbers | Strings] = {**numbers, **whole, **texts}
    return {name: found[name] for name in NAMES}


def encode(examples: "pa.Table") -> "pa.Array":
    """One serialised tf.train.Example a row; a missing value is an absent feature."""
    import pyarrow as pa

    columns = {name: examples[name].combine_chunks() for name in NAMES}
    columns |= {name: columns[name].cast(pa.float32()) for name in FLOATS}
    return encode_rows(columns)
