"""The columns of a table: checked in a file's header, and turned into examples."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.reading.files import TableFile
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tfrecords.row_splits import hash_rows
from trainer.errors import did_you_mean
from trainer.workloads.declarations.features import Number
from trainer.workloads.declarations.names import normal_form

logger = logging.getLogger(__name__)

# Names of the column of row numbers that pandas writes before a table's own columns.
INDEX_NAMES = {"", "unnamed:_0", "__index_level_0__"}
# The key of rows without one, and the column of the hash of all their values.
WHOLE_ROW = "all values of a row"
NUM_SHOWN = 3  # wrong columns in an error

Rule = Callable[[Mapping[str, Any]], Any]
Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class Header:
    """The columns of a file, by the schema's names, and those that do not fit the schema."""

    columns: list[str]
    missing: list[str]
    unknown: list[str]
    twice: list[str]


def match_header(
    names: Sequence[str], schema: TableSchema, *, ignored: Iterable[str] = ()
) -> Header:
    """Return the columns of a file in the schema; unused columns keep their own names.

    A column has the name or an alias of the schema, exactly or in normal form.
    """
    columns, known = schema.named(names), schema.known
    skipped = _skipped(columns, schema, ignored)
    return Header(
        columns,
        missing=[name for name in schema.expected if name not in columns],
        unknown=[name for name in columns if name not in known and name not in skipped],
        twice=[name for name in dict.fromkeys(columns) if columns.count(name) > 1],
    )


def match_files(
    files: Sequence[TableFile], schema: TableSchema, *, ignored: Iterable[str] = ()
) -> list[TableFile]:
    """Return the files with their columns in the schema; some may lack a feature that others have.

    Raises:
        DataError: a file lacks a column, or has an unknown one or one twice; names all.
    """
    headers = [match_header(file.names, schema, ignored=ignored) for file in files]
    known = {name for header in headers for name in header.columns}
    known -= {*schema.keys, *schema.rule_columns, schema.label.name, *schema.never_missing}
    errors = list[DataError]()
    for file, header in zip(files, headers, strict=True):
        if added := [name for name in header.missing if name in known]:
            logger.warning("%s lacks %s, which its rows miss", file.path, ", ".join(added))
        missing = [name for name in header.missing if name not in known]
        errors += _errors(file.path, replace(header, missing=missing))
    if errors:
        more = [f"and {len(errors) - NUM_SHOWN} more"] if len(errors) > NUM_SHOWN else []
        raise DataError("; ".join([*map(str, errors[:NUM_SHOWN]), *more]), parts=errors)
    return [
        replace(file, columns=tuple(header.columns))
        for file, header in zip(files, headers, strict=True)
    ]


def _errors(file: str, header: Header) -> Iterator[DataError]:
    for name in header.missing:
        hint = did_you_mean(name, header.unknown or header.columns)
        hint = hint or f" it has {', '.join(header.columns)}"
        yield DataError(f"the column {name!r} is not in {file};{hint}", about=name)
    for name in header.twice:
        yield DataError(f"{file}: the column {name!r} occurs twice; rename one")
    if header.unknown:
        shown = ", ".join(map(repr, header.unknown))
        yield DataError(
            f"{file} has columns that are not declared: {shown}; declare them as features, or add"
            f" ignored=[{shown}], or set prepare.ignore_columns",
            about="Table",
        )


def _skipped(columns: Sequence[str], schema: TableSchema, ignored: Iterable[str]) -> set[str]:
    patterns = [*schema.ignored, *ignored]
    forms = [normal_form(pattern) for pattern in patterns]
    return {
        name
        for name in columns
        if normal_form(name) in INDEX_NAMES
        or any(fnmatchcase(name, pattern) for pattern in patterns)
        or any(fnmatchcase(normal_form(name), form) for form in forms)
    }


def has_key(columns: Sequence[str], schema: TableSchema) -> bool:
    """Return whether the columns have the declared key; a column may lack a name, as a key may."""
    return bool(schema.key) and schema.key in columns


def hashed_names(names: Iterable[str]) -> dict[str, str]:
    """Return the name under which each column of a file decides its rows' splits.

    It is the normal form, unless two columns share that, as `Age` and `age` do. The numbers of rows
    have no part in it.
    """
    names = list(names)
    counts = Counter(map(normal_form, names))
    forms = {name: normal_form(name) for name in names}
    return {
        name: form if counts[form] == 1 else name.strip()
        for name, form in forms.items()
        if form not in INDEX_NAMES
    }


def check_key(key: Sequence[str], columns: Sequence[str], schema: TableSchema) -> tuple[str, ...]:
    """Return the columns to split by: the setting split_key, or else the row's key, or group_by.

    Rows of the same key are in the same split; without a key, rows of the same picture, or else of
    all the same values.

    Raises:
        DataError: a column is missing, or holds neither integers nor texts; names the allowed ones.
    """
    if not key:
        pictures = tuple(column.name for column in schema.images[:1])
        names = (schema.key,) if has_key(columns, schema) else schema.group_by or pictures
        return tuple(schema.key_of(name) for name in names if name in columns) or (WHOLE_ROW,)
    excluded = {c.name for c in schema.columns if isinstance(c, Number) or c.is_list}
    excluded.add(schema.label.name)
    allowed = [name for name in columns if name not in excluded]
    named = schema.named(key)
    for name in named:
        if name not in allowed:
            raise DataError(f"split_key is {name!r}; allowed are {', '.join(allowed)}")
    return tuple(map(schema.key_of, named))


def to_examples(table: pa.Table, schema: TableSchema, rule: Rule | None) -> Columns:
    """Return the features and the label of clean rows, which a rule computes if there is one.

    Raises:
        DataError: the label's rule returns something else than 0 or 1 for each row.
    """
    columns = {name: table[schema.values_of(name)].combine_chunks() for name in schema.features}
    label = schema.label.name
    columns[label] = _ruled(table, schema, rule) if rule else table[label].combine_chunks()
    return columns


def _ruled(table: pa.Table, schema: TableSchema, rule: Rule) -> pa.Array:
    columns = schema.rule_columns
    labels = np.asarray(rule({name: table[name].to_numpy() for name in columns}))
    name = schema.label.name
    if labels.shape != (table.num_rows,):
        raise DataError(
            f"the rule of the label {name} returned an array of shape {labels.shape} for"
            f" {table.num_rows:,} rows; it must return one 0 or 1 for each"
        )
    whole = labels.astype(np.int64)
    wrong = np.flatnonzero((whole != labels) | (whole < 0) | (whole > 1))
    if wrong.size:
        raise DataError(
            f"the rule of the label {name} returned {labels[wrong[0]]!r}; it must return 0 or 1"
        )
    return pa.array(whole)


def hashes_of(table: pa.Table, names: Sequence[str]) -> NDArray[np.uint64] | None:
    """Return a hash of the values of some columns of each clean row, None without any."""
    return hash_rows([table[name].combine_chunks() for name in names]) if names else None
