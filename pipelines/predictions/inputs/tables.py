"""CSV and Parquet files: read as prepare_examples reads them, but without a label."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.pictures import find_table_files
from components.prepare_examples.tables.plan import plan_table
from components.prepare_examples.tables.reading.files import TableFile, open_table
from components.prepare_examples.tables.rows import Block
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema, schema_of
from components.prepare_examples.tfrecords.table_encoder import encode_rows
from pipelines.predictions.inputs.batch import BATCH_ROWS, Batch
from trainer import Json
from trainer.errors import did_you_mean
from trainer.workloads.declarations.labels import Binary
from trainer.workloads.declarations.names import declared_names
from trainer.workloads.table import Table

# No file has such a column, so none is read as the label, not even the label itself.
NO_LABEL = Binary("\0no label")


def schema_for_predictions(workload: Table, *, time_zone: str = "") -> TableSchema:
    """Return the schema of the features that a model gets, and of the times they are parts of."""
    times = {getattr(feature, "of", "") for feature in workload.used}
    needed = [feature for feature in workload.features if feature.is_used or feature.name in times]
    schema = schema_of(workload, features=needed, only_read=(), weight="", label=NO_LABEL)
    return schema.in_time_zone(time_zone) if time_zone else schema


def plan_tables(
    paths: Sequence[str], schema: TableSchema, *, num_parts: int, label: str = ""
) -> tuple[list[Json], list[str]]:
    """Return the parts of files, and the names of the columns that are not read.

    About `num_parts` parts; files without a header may lack the column `label`.

    Raises:
        DataError: a file lacks a column or has it twice; names both.
    """
    files = [_open(path, schema, label) for path in paths]
    unused: set[str] = set()
    for number, file in enumerate(files):
        matched = columns.match_header(file.names, schema)
        missing = missing_columns(matched, schema)
        if matched.twice:
            raise DataError(f"{file.path}: the column {matched.twice[0]!r} occurs twice")
        if missing:
            hint = did_you_mean(missing[0], matched.unknown or matched.columns)
            raise DataError(
                f"{file.path}: the column {missing[0]!r} is missing, which the model needs;{hint}"
                f" the file has {', '.join(matched.columns)}"
            )
        files[number] = replace(file, columns=tuple(matched.columns))
        known = {*schema.by_name, schema.key}
        unused |= {name for name in matched.columns if name not in known}
    plan = plan_table(files, num_shards=num_parts)
    return [{"table": part} for part in plan.parts if part.inputs], sorted(unused)


def missing_columns(header: columns.Header, schema: TableSchema) -> list[str]:
    """Return the columns that predictions need and a file lacks."""
    return [name for name in header.missing if name not in (NO_LABEL.column, schema.key)]


def _open(path: str, schema: TableSchema, label: str) -> TableFile:
    """Return a file; without a header it has the declared columns, with or without the label."""
    file, names = open_table(path, header=schema.header), schema.header
    if not names or file.has_groups:
        return file
    declared = zip(names, declared_names(names, [label], schema.aliases), strict=True)
    without = [name for name, own in declared if own != label]
    first = open_table(path)
    num_fields = len(first.names) - len(first.folder_values)
    return open_table(path, header=without) if num_fields == len(without) else file


def read_table(
    part: Json, predictor: Any, *, time_zone: str, patterns: Sequence[str] = ()
) -> Iterator[Batch]:
    """Yield the rows of a part; rows with impossible values become errors of their batch.

    Rows become tf.train.Examples and then the model's inputs, as in preparing and training.
    """
    workload = predictor.workload
    schema = schema_for_predictions(workload, time_zone=time_zone)
    names = [feature.name for feature in workload.used]
    pictures = None
    if schema.images:
        pictures = find_table_files(patterns, has_pictures=True).pictures
    for segment in part["table"].inputs:
        for first_row, block in blocks(segment, schema, pictures=pictures):
            yield from _batches(block, segment.file.path, first_row, (workload, schema, names))


def _batches(
    block: Block, path: str, first_row: int, reading: tuple[Table, TableSchema, list[str]]
) -> Iterator[Batch]:
    import tensorflow as tf

    workload, schema, names = reading
    good = np.flatnonzero(block.is_good)
    rows = (block.numbers[good] + first_row + 1).tolist()
    table = block.table.take(good)
    values = {name: table[schema.values_of(name)].combine_chunks() for name in names}
    records = encode_rows(values).to_numpy(zero_copy_only=False)
    has_keys = columns.has_key(table.column_names, schema)
    keys = table[schema.key].to_pylist() if has_keys else [None] * len(rows)
    errors = block.refused(first_row)
    for start in range(0, max(len(rows), 1), BATCH_ROWS):
        cut = slice(start, start + BATCH_ROWS)
        features, _ = workload.parse(tf.constant(records[cut], tf.string))
        yield Batch(path=path, rows=rows[cut], keys=keys[cut], features=features, errors=errors)
        errors = []
