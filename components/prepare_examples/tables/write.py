"""Writing of one part of a table: files of examples, and a side file of quarantined rows."""

import calendar
import datetime
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from components.prepare_examples.declarations import load_rule
from components.prepare_examples.errors import DataError
from components.prepare_examples.parts import (
    Part,
    PartFiles,
    PartOptions,
    PartResult,
    Tally,
    open_part,
)
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.picture_rows import Reasons, mark_rows
from components.prepare_examples.tables.pictures import Pictures, find_table_files
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.rows import HEADER, REPEATED, Block, plain_value
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.labels import binary_text, spelled
from components.prepare_examples.tfrecords.table_encoder import encode_rows
from components.shared.text.value_text import time_text
from trainer.workloads.declarations.labels import Binary

MAX_LABELS = 100
DAY_SECONDS = 86_400


class Period(NamedTuple):
    """Rows with a time from `start` to before `stop`, both seconds of wall time since 1970."""

    column: str
    start: int
    stop: int

    def __str__(self) -> str:
        first, last = (
            time_text(seconds, form="%Y-%m-%d") for seconds in (self.start, self.stop - 1)
        )
        return f"{self.column} from {first} to {last}"


@dataclass(frozen=True, kw_only=True)
class RowOptions(PartOptions):
    """Options of turning rows into examples, the same for every part."""

    schema: TableSchema
    key: tuple[str, ...]
    period: Period | None = None
    patterns: tuple[str, ...] = ()  # of the files, to find pictures
    left_out: Reasons = field(default_factory=dict)

    @property
    def pictures(self) -> Pictures | None:
        """The pictures, None for a table without any."""
        if not self.schema.images:
            return None
        return find_table_files(self.patterns, has_pictures=True).pictures


def write_part(part: Part[Segment], *, options: RowOptions, output_dir: str) -> PartResult:
    """Write the files of one part.

    Raises:
        DataError: a file is damaged, or has changed while it was read.
    """
    schema, pictures = options.schema, options.pictures
    rule = load_rule(schema.reference) if schema.rule_columns else None
    is_hashed = options.rule.is_hashed and columns.WHOLE_ROW in options.key
    with open_part(part.shards, Path(output_dir), options) as files:
        for segment in part.inputs:
            left_out = options.left_out.get(segment.file.path, {})
            for first_row, block in blocks(segment, schema, is_hashed=is_hashed, pictures=pictures):
                mark_rows(block, first_row, left_out)
                _count(block, files.tally, options)
                files.refuse(
                    [{"file": segment.file.path, **row} for row in block.refused(first_row)]
                )
                _write_block(block, files, options, rule, path=segment.file.path)
    return files.result()


def _count(block: Block, tally: Tally, options: RowOptions) -> None:
    """Count the rows, and the values of a binary label in rows that are good otherwise."""
    kinds = Counter(column for column, _ in block.bad.reasons.values())
    tally.headers += kinds[HEADER]
    tally.repeated += kinds[REPEATED]
    tally.read += block.num_rows
    tally.zones += block.zones
    label = options.schema.label
    if not isinstance(label, Binary) or label.rule_columns or len(tally.labels) > MAX_LABELS:
        return
    is_counted = block.is_good
    is_counted[[row for row, why in block.bad.reasons.items() if why[0] == label.name]] = True
    good, missing = _rows(block.records.table, is_counted), options.schema.markers(label.name)
    for entry in good[label.name].value_counts().to_pylist():
        text = spelled(str(plain_value(entry["values"])), label.spellings)
        text = binary_text(text, label.positive)
        if entry["values"] is not None and text not in ("", *missing):
            tally.labels[text] += entry["counts"]


def _write_block(
    block: Block, files: PartFiles, options: RowOptions, rule: columns.Rule | None, *, path: str
) -> None:
    good = usable_rows(block, options.schema, options.period, files.tally)
    if not good.num_rows:
        return
    examples = columns.to_examples(good, options.schema, rule)
    hashes = columns.hashes_of(good, options.key if options.rule.is_hashed else ())
    by = options.rule.column
    files.write(
        examples,
        encode_rows(examples),
        path=path,
        values=good[by].combine_chunks() if by else None,
        hashes=hashes,
        groups=columns.hashes_of(good, options.rule.groups),
    )


def usable_rows(block: Block, schema: TableSchema, period: Period | None, tally: Tally) -> pa.Table:
    """Return the good rows of a period that have a label; count the others of the good ones."""
    good = _rows(block.table, block.is_good)
    of_period = within(good, period)
    tally.filtered += good.num_rows - of_period.num_rows
    labelled = of_period
    if not schema.rule_columns:  # the columns that a rule reads are required anyway
        has_label = of_period[schema.label.name].combine_chunks().is_valid()
        labelled = _rows(of_period, np.asarray(has_label))
    tally.unlabelled += of_period.num_rows - labelled.num_rows
    return labelled


def _rows(table: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
    return table if mask.all() else table.take(np.flatnonzero(mask)).combine_chunks()


def period_of(schema: TableSchema, options: PrepareOptions) -> Period | None:
    """Return the period of the options' dates; None for all rows.

    Raises:
        DataError: the table has no such time, or several and none is named.
    """
    times = [column.name for column in schema.times]
    [time_column] = schema.named([options.time_column])
    if time_column and time_column not in times:
        raise DataError(
            f"time_column is {options.time_column!r}, which is no Timestamp of the workload"
            f" {schema.workload}; it has {', '.join(times) or 'none'}"
        )
    if not options.dates or options.source == "bigquery":  # its query has the dates
        return None
    if len(times) != 1 and not time_column:
        names = f"several: {', '.join(times)}" if times else "none"
        raise DataError(
            f"dates (or window) select rows by a Timestamp, and the workload {schema.workload} has"
            f" {names}; name one with prepare.time_column, or write {{run_date:%Y-%m-%d}} into the"
            " names in prepare.files"
        )
    first, last = (
        calendar.timegm(datetime.date.fromisoformat(date).timetuple()) for date in options.dates
    )
    return Period(time_column or times[0], first, last + DAY_SECONDS)


def within(rows: pa.Table, period: Period | None) -> pa.Table:
    """Return the rows of a period; those without a time are left out."""
    if period is None:
        return rows
    times = rows[period.column]
    is_within = pc.and_(pc.greater_equal(times, period.start), pc.less(times, period.stop))
    return rows.filter(is_within).combine_chunks()
