"""Columns of files as texts, with what the types of Parquet and JSON files tell."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.parquet_columns import decoded, is_list_type
from components.prepare_examples.tables.values.written import numbers_of, plain_texts
from pipelines.projects.starter.column import LIST, LIST_SEPARATOR, NUMBER, TableColumn
from trainer.workloads.declarations.written import Written

UNEVEN = "list of numbers, of which some are missing or longer than others"
TESTS = {
    NUMBER: (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    LIST: (is_list_type,),
}
NO_FEATURE = (pa.types.is_nested, pa.types.is_duration, pa.types.is_time)


def column_of(name: str, declared: str, chunks: Sequence[pa.Array]) -> TableColumn:
    """Return a column, whose parts may have different types, as texts."""
    chunks = [*map(decoded, chunks)]
    present = [chunk for chunk in chunks if chunk.null_count < len(chunk)]
    kinds = [
        kind
        for kind, tests in TESTS.items()
        if present and all(any(test(array.type) for test in tests) for array in present)
    ]
    unusable = next((str(array.type) for array in present if not _is_usable(array)), "")
    length = 0
    if kinds == [LIST] and not unusable:
        sizes = {size for array in present for size in pc.list_value_length(array).to_pylist()}
        items = pa.concat_arrays([decoded(array.flatten()).cast(pa.string()) for array in present])
        if len(sizes - {0, None}) == 1 and not numbers_of(items, Written()).null_count:
            [length] = sizes - {0, None}
        elif pa.types.is_floating(present[0].type.value_type):
            unusable = UNEVEN
    floats = [array for array in present if pa.types.is_floating(array.type)]
    texts = pa.concat_arrays(map(_texts_of, chunks))
    return TableColumn(
        name,
        declared,
        plain_texts(texts),
        stored="".join(kinds),
        unusable=unusable,
        length=length,
        num_infinite=sum(pc.sum(pc.is_inf(array)).as_py() or 0 for array in floats),
        has_blanks=not pc.all(pc.equal(pc.utf8_trim_whitespace(texts), texts)).as_py(),
    )


def _texts_of(column: pa.Array) -> pa.Array:
    """Return values as texts; null for those that are missing, infinite or of an unusable type."""
    if not _is_usable(column):
        return pa.nulls(len(column), pa.string())
    if is_list_type(column.type):
        rows = ([str(item) for item in row or () if item is not None] for row in column.to_pylist())
        return pa.array([LIST_SEPARATOR.join(row) or None for row in rows], pa.string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    return column.cast(pa.string())


def _is_usable(column: pa.Array) -> bool:
    """Return whether a feature can have the values of a column."""
    kind = column.type
    if is_list_type(kind):
        return not pa.types.is_nested(kind.value_type) and _is_usable(column.flatten())
    if any(test(kind) for test in NO_FEATURE):
        return False
    try:
        column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
