"""The columns of a table: checked in a file's header, and turned into examples.

Which columns there are is the workload's matter (`trainer.workloads.taxi_table`).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.statistics.texts import Strings
from components.prepare_examples.tfrecords.row_splits import hash_rows, split_numbers
from components.prepare_examples.tfrecords.table_encoder import encode_rows
from trainer.workloads.taxi_table import (
    DROPPED,
    FEATURES,
    FLOATS,
    GROUP_KEY,
    INTS,
    KEYS,
    LABEL,
    LABEL_COLUMNS,
    PORTAL_NAMES,
    REQUIRED,
    ROW_KEY,
    STRINGS,
    make_label,
)

NAMES = (*FEATURES, LABEL)
KNOWN = {*FEATURES, *DROPPED}
# Names of the column of row numbers that pandas writes before a table's own columns.
INDEX_NAMES = {"", "unnamed:_0", "__index_level_0__"}


def canonical_name(name: str) -> str:
    """Return a column's name in the workload's table; `Trip ID` of the portal is `unique_key`."""
    plain = "_".join(name.strip().lower().split())
    return PORTAL_NAMES.get(plain, plain)


def check_header(names: Iterable[str], *, file: str, ignored: Iterable[str] = ()) -> list[str]:
    """Return the canonical names of a file's columns.

    Raises:
        DataError: a column is missing, unknown or duplicated; names the file and the column.
    """
    columns = [canonical_name(name) for name in names]
    for name in columns:
        if columns.count(name) > 1:
            raise DataError(f"{file}: the column {name!r} occurs twice")
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise DataError(
            f"{file}: the column {missing[0]!r} is missing (all missing: {', '.join(missing)}); "
            f"the file has {', '.join(columns)}"
        )
    ignored = INDEX_NAMES | {canonical_name(name) for name in ignored}
    unknown = [name for name in columns if name not in KNOWN and name not in ignored]
    if unknown:
        raise DataError(
            f"{file}: the column {unknown[0]!r} is not a column of this table; remove it, or "
            f"add it to ignore_columns ({', '.join(unknown)})"
        )
    return columns


def default_key(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to split by: the row's key, or those of GROUP_KEY that the table has.

    Rows of the same key are in the same split. The taxi sample has neither trip ids nor taxi ids:
    all trips that started in the same quarter of an hour are in the same split.
    """
    if ROW_KEY in columns:
        return (ROW_KEY,)
    return tuple(name for name in GROUP_KEY if name in columns)


def check_key(key: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns to split by.

    Raises:
        DataError: a column is missing, or holds neither integers nor texts; names the allowed ones.
    """
    allowed = [name for name in (*KEYS, *INTS, *STRINGS) if name in columns]
    for name in key:
        if name not in allowed:
            raise DataError(f"split_key is {name!r}; allowed are {', '.join(allowed)}")
    return tuple(key)


def to_examples(table: pa.Table) -> pa.Table:
    """Return the features and the label of clean rows."""
    columns = {name: table[name].combine_chunks() for name in FEATURES}
    columns[LABEL] = pa.array(make_label({name: table[name].to_numpy() for name in LABEL_COLUMNS}))
    return pa.table(columns)


def splits_of(
    table: pa.Table, *, key: Sequence[str], ratios: Mapping[str, float]
) -> NDArray[np.int64]:
    """Return the number of the split of each clean row."""
    hashes = hash_rows([table[name].combine_chunks() for name in key])
    return split_numbers(hashes, ratios)


def is_complete(examples: pa.Table) -> pa.Array:
    """Return for each row whether it has every feature."""
    complete = pa.array([True] * examples.num_rows)
    for name in FEATURES:
        complete = pc.and_(complete, examples[name].combine_chunks().is_valid())
    return complete


def new_statistics() -> dict[str, Numbers | Strings]:
    """Return empty statistics of each feature and the label."""
    numbers = {name: Numbers("FLOAT") for name in FLOATS}
    whole = {name: Numbers("INT") for name in (*INTS, LABEL)}
    texts = {name: Strings() for name in STRINGS}
    found: dict[str, Numbers | Strings] = {**numbers, **whole, **texts}
    return {name: found[name] for name in NAMES}


def encode(examples: pa.Table) -> pa.Array:
    """Return a serialised tf.train.Example for each row; missing values are absent features."""
    columns = {name: examples[name].combine_chunks() for name in NAMES}
    columns |= {name: columns[name].cast(pa.float32()) for name in FLOATS}
    return encode_rows(columns)
