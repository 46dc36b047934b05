"""Columns of Parquet and JSON files as texts, with the facts that their types tell."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.tables.parquet_columns import decoded, is_list_type
from components.prepare_examples.tables.values.written import numbers_of
from trainer.workloads.declarations.written import Written

LIST_SEPARATOR = "|"
UNEVEN = "list of numbers, of which some are missing or longer than others"
NUMBER, TIME, LIST = "number", "time", "list"
NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
KINDS = {
    NUMBER: lambda kind: any(test(kind) for test in NUMBER_TYPES),
    TIME: lambda kind: pa.types.is_timestamp(kind) or pa.types.is_date(kind),
    LIST: is_list_type,
}


@dataclass(frozen=True)
class TypeFacts:
    """Facts about a column from the types of its values.

    Attributes:
        kind: NUMBER, TIME or LIST if all values have such a type, else "".
        unusable: the type of values that no feature has, or "".
        length: the number of numbers in each list, or 0.
        num_infinite: how many values are infinite.
    """

    kind: str = ""
    unusable: str = ""
    length: int = 0
    num_infinite: int = 0


def facts_of(chunks: Sequence[pa.Array]) -> TypeFacts:
    """Return the facts about the values of a column, in parts of perhaps different types."""
    present = [chunk for chunk in map(decoded, chunks) if chunk.null_count < len(chunk)]
    kinds = [kind for kind, test in KINDS.items() if all(test(array.type) for array in present)]
    kind = kinds[0] if present and kinds else ""
    unusable = next((str(array.type) for array in present if not _is_usable(array)), "")
    floats = [array for array in present if pa.types.is_floating(array.type)]
    length = _length(present) if kind == LIST and not unusable else 0
    if kind == LIST and not length and pa.types.is_floating(present[0].type.value_type):
        unusable = unusable or UNEVEN
    infinite = sum(pc.sum(pc.is_inf(array)).as_py() or 0 for array in floats)
    return TypeFacts(kind=kind, unusable=unusable, length=length, num_infinite=infinite)


def texts_of(column: pa.Array) -> pa.Array:
    """Return values as texts; null for those that are missing, infinite or of an unusable type."""
    column = decoded(column)
    if not _is_usable(column):
        return pa.nulls(len(column), pa.string())
    if is_list_type(column.type):
        rows = ([str(item) for item in row or () if item is not None] for row in column.to_pylist())
        return pa.array([LIST_SEPARATOR.join(row) or None for row in rows], pa.string())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    texts = column.cast(pa.string())
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _is_usable(column: pa.Array) -> bool:
    """Return whether a feature can have the values of a column."""
    kind = column.type
    if is_list_type(kind):
        return not pa.types.is_nested(kind.value_type) and _is_usable(column.flatten())
    if pa.types.is_nested(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        return False
    try:
        column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _length(lists: Sequence[pa.Array]) -> int:
    """Return the length of all lists if it is the same and they hold numbers, else 0."""
    lengths = {size for array in lists for size in pc.list_value_length(array).to_pylist() if size}
    texts = (decoded(array.flatten()).cast(pa.string()) for array in lists)
    are_numbers = not any(numbers_of(items, Written()).null_count for items in texts)
    return int(lengths.pop()) if len(lengths) == 1 and are_numbers else 0
