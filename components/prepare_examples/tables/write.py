"""Writing of one part of a table: files of examples, and a side file of quarantined rows."""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.prepare_examples.declarations import load_rule
from components.prepare_examples.output.quarantine import side_file_entry
from components.prepare_examples.output.split_files import (
    SplitFiles,
    open_splits,
    partial_path,
    published,
)
from components.prepare_examples.split_rule import SplitRule
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.period import Period, within
from components.prepare_examples.tables.picture_rows import Reasons, mark_rows
from components.prepare_examples.tables.pictures import Pictures, find_table_files
from components.prepare_examples.tables.plan import Part
from components.prepare_examples.tables.results import PartResult, Tally
from components.prepare_examples.tables.rows import HEADER, REPEATED, Block, plain_value
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.labels import binary_text, spelled
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json
from trainer.workloads.declarations.labels import Binary

MAX_LABELS = 100


@dataclass(frozen=True)
class TableOptions:
    """Options of turning rows into examples, the same for every part."""

    schema: TableSchema
    key: tuple[str, ...]
    rule: SplitRule
    num_shards: int
    compression: str = "GZIP"
    period: Period | None = None
    patterns: tuple[str, ...] = ()  # of the files, to find pictures
    left_out: Reasons = field(default_factory=dict)

    @property
    def pictures(self) -> Pictures | None:
        """The pictures, None for a table without any."""
        if not self.schema.images:
            return None
        return find_table_files(self.patterns, has_pictures=True).pictures


def write_part(part: Part, *, options: TableOptions, output_dir: str) -> PartResult:
    """Write the files of one part.

    Raises:
        DataError: a file is damaged, or has changed while it was read.
    """
    schema, tally, pictures = options.schema, Tally(), options.pictures
    rule = load_rule(schema.reference) if schema.rule_columns else None
    side = Path(output_dir, f"quarantine-{part.shards[0]:05d}-of-{options.num_shards:05d}.jsonl")
    with contextlib.ExitStack() as stack:
        side_file = stack.enter_context(partial_path(side).open("w", encoding="utf-8"))
        splits = open_splits(
            stack,
            part.shards,
            folder=Path(output_dir),
            num_shards=options.num_shards,
            compression=options.compression,
            new_statistics=lambda: columns.new_statistics(schema),
        )
        is_hashed = options.rule.is_hashed and columns.WHOLE_ROW in options.key
        for segment in part.segments:
            left_out = options.left_out.get(segment.path, {})
            for first_row, block in blocks(segment, schema, is_hashed=is_hashed, pictures=pictures):
                mark_rows(block, first_row, left_out)
                _quarantine(block, segment.path, first_row, side_file, tally)
                _write_block(block, splits, tally, options, rule, path=segment.path)
    return PartResult(
        shards=published(splits),
        quarantine=_published_side(side, tally),
        statistics={name: split.statistics for name, split in splits.items()},
        tally=tally,
    )


def _count_labels(block: Block, tally: Tally, options: TableOptions) -> None:
    """Count the values of a binary label in rows that are good otherwise, for an error."""
    label = options.schema.label
    if not isinstance(label, Binary) or label.rule_columns or len(tally.labels) > MAX_LABELS:
        return
    is_counted = block.is_good
    is_counted[[row for row, why in block.bad.reasons.items() if why[0] == label.name]] = True
    good, missing = _rows(block.raw, is_counted), options.schema.markers(label.name)
    for entry in good[label.name].value_counts().to_pylist():
        text = spelled(str(plain_value(entry["values"])), label.spellings)
        text = binary_text(text, label.positive)
        if entry["values"] is not None and text not in ("", *missing):
            tally.labels[text] += entry["counts"]


def _write_block(
    block: Block,
    splits: Mapping[str, SplitFiles],
    tally: Tally,
    options: TableOptions,
    rule: columns.Rule | None,
    *,
    path: str,
) -> None:
    _count_labels(block, tally, options)
    good = usable_rows(block, options.schema, options.period, tally)
    examples = columns.to_examples(good, options.schema, rule)
    hashes = columns.hashes_of(good, options.key if options.rule.is_hashed else ())
    numbers = _split_numbers(good, path, options, hashes)
    for number in np.unique(numbers[numbers < 0]).tolist():
        tally.outside[options.rule.reason(number)] += int((numbers == number).sum())
    for number, name in enumerate(SPLITS):
        mask = numbers == number
        rows = _rows(examples, mask)
        if rows.num_rows:
            arrays = {column: rows[column].combine_chunks() for column in rows.column_names}
            keys = options.rule.keys(hashes, mask)
            splits[name].add(arrays, columns.encode(rows, options.schema), keys)
    tally.written += int((numbers >= 0).sum())


def usable_rows(block: Block, schema: TableSchema, period: Period | None, tally: Tally) -> pa.Table:
    """Return the good rows of a period that have a label; count the others of the good ones."""
    good = _rows(block.table, block.is_good)
    of_period = within(good, period)
    tally.filtered += good.num_rows - of_period.num_rows
    labelled = _labelled_rows(of_period, schema)
    tally.unlabelled += of_period.num_rows - labelled.num_rows
    return labelled


def _split_numbers(
    rows: pa.Table, path: str, options: TableOptions, hashes: NDArray[np.uint64] | None
) -> NDArray[np.int64]:
    """Return the number of the split of each row of a file, see SplitRule.numbers."""
    rule = options.rule
    return rule.numbers(
        rows.num_rows,
        file=path,
        values=rows[rule.column].combine_chunks() if rule.column else None,
        hashes=hashes,
        groups=columns.hashes_of(rows, rule.groups),
    )


def _labelled_rows(table: pa.Table, schema: TableSchema) -> pa.Table:
    """Return the rows with a label; the columns that a rule reads are required anyway."""
    if schema.rule_columns:
        return table
    has_label = table[schema.label.name].combine_chunks().is_valid()
    return _rows(table, has_label.to_numpy(zero_copy_only=False))


def _rows(table: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
    """Return the rows of a table where the mask is true, each column in one array."""
    return table if mask.all() else table.take(np.flatnonzero(mask)).combine_chunks()


def _quarantine(block: Block, path: str, first_row: int, side: IO[str], tally: Tally) -> None:
    """Write the bad rows to the side file, a JSON object per line, in the input's order."""
    kinds = Counter(column for column, _ in block.bad.reasons.values())
    tally.headers += kinds[HEADER]
    tally.repeated += kinds[REPEATED]
    for entry in block.refused(first_row):
        side.write(json.dumps({"file": path, **entry}) + "\n")
        tally.quarantined[entry["column"]] += 1
    tally.read += block.num_rows
    tally.zones += block.zones


def _published_side(path: Path, tally: Tally) -> list[Json]:
    num_rows = sum(tally.quarantined.values())
    if not num_rows:
        partial_path(path).unlink()
        return []
    os.replace(partial_path(path), path)
    return [side_file_entry(path, num_rows)]
