"""Checking, splitting and writing of the records of some files."""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.existing_records.check import wrong_values
from components.prepare_examples.existing_records.read import (
    batches,
    is_sequence,
    parse,
    read_records,
    reason_of,
)
from components.prepare_examples.existing_records.record_schema import (
    BYTES,
    KINDS,
    RecordFeature,
    RecordSchema,
)
from components.prepare_examples.output.quarantine import write_side_file
from components.prepare_examples.output.split_files import SplitFiles, open_splits
from components.prepare_examples.statistics.states import Statistic, new_statistic
from components.prepare_examples.tables.results import PartResult, Tally
from components.prepare_examples.tables.table_schema import MAX_CLASSES
from components.prepare_examples.tfrecords.row_splits import split_numbers
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json

HASH_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Options of every part; `given` are the splits for which there are files."""

    schema: RecordSchema
    ratios: Mapping[str, float]
    num_shards: int
    compression: str
    given: tuple[str, ...] = ()
    max_records: int = 0


@dataclass(frozen=True)
class RecordPart:
    """The work of one call: its shards, and path and given split of each of its files."""

    shards: list[int]
    files: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Batch:
    """Records of a file from number `first` on, and the split for which the file is."""

    path: str
    first: int
    given: str
    records: list[bytes]


def write_part(part: RecordPart, *, options: RecordOptions, output_dir: str) -> PartResult:
    """Write the files of one part.

    Raises:
        DataError: a file is damaged.
    """
    folder, count = Path(output_dir), options.num_shards
    side = folder / f"quarantine-{part.shards[0]:05d}-of-{count:05d}.jsonl"
    bad: list[Json] = []
    num_read = 0
    with contextlib.ExitStack() as stack:
        splits = open_splits(
            stack,
            part.shards,
            folder=folder,
            num_shards=count,
            compression=options.compression,
            new_statistics=lambda: _new_statistics(options.schema),
        )
        for path, given in part.files:
            for records in batches(read_records(Path(path))):
                left = options.max_records - num_read if options.max_records else len(records)
                kept = records[: max(left, 0)]
                if kept:
                    bad += _write_batch(_Batch(path, num_read, given, kept), splits, options)
                num_read += len(kept)
    return PartResult(
        shards=[entry for name, split in splits.items() for entry in split.publish(name)],
        quarantine=write_side_file(side, bad),
        statistics={name: split.statistics for name, split in splits.items()},
        tally=Tally(
            read=num_read,
            written=num_read - len(bad),
            quarantined=Counter(entry["column"] for entry in bad),
        ),
    )


def _write_batch(
    batch: _Batch, splits: dict[str, SplitFiles], options: RecordOptions
) -> list[Json]:
    """Write the good records of a batch; return the entries of the bad ones."""
    schema, records = options.schema, batch.records
    reasons, columns = _parsed(records, schema.features)
    numbers = np.array([number for number in range(len(records)) if number not in reasons], int)
    plain = {}
    for feature in schema.features if columns else ():
        column = columns[feature.name]
        for row, reason in wrong_values(column, feature, schema.label).items():
            reasons.setdefault(int(numbers[row]), (feature.name, reason))
        plain[feature.name] = _plain(column, feature)
    rows = np.array([row for row, number in enumerate(numbers) if int(number) not in reasons], int)
    names = _splits_of([records[numbers[row]] for row in rows], batch.given, options)
    for split in SPLITS:
        chosen = rows[[name == split for name in names]] if len(rows) else rows
        if len(chosen):
            part = {name: column.take(pa.array(chosen)) for name, column in plain.items()}
            kept = pa.array([records[numbers[row]] for row in chosen], pa.binary())
            splits[split].add(part, kept)
    return [
        {"file": batch.path, "row": batch.first + number + 1, "column": name, "reason": reason}
        for number, (name, reason) in sorted(reasons.items())
    ]


def _parsed(
    records: list[bytes], features: Sequence[RecordFeature]
) -> tuple[dict[int, tuple[str, str]], dict[str, pa.Array]]:
    """Return the records that cannot be read, with feature and reason, and the others' features."""
    reasons = {
        number: reason_of(record, features)
        for number, record in enumerate(records)
        if is_sequence(record)
    }
    try:
        good = [record for number, record in enumerate(records) if number not in reasons]
        return reasons, parse(good, features) if good else {}
    except ValueError:
        for number, record in enumerate(records):
            try:
                parse([record], features)
            except ValueError:
                reasons[number] = reason_of(record, features)
    good = [record for number, record in enumerate(records) if number not in reasons]
    return reasons, parse(good, features) if good else {}


def _splits_of(records: list[bytes], given: str, options: RecordOptions) -> list[str]:
    """Return the split of each record: the given one, or by the hash of its content."""
    if given and given != "train":
        return [given] * len(records)
    digests = b"".join(hashlib.blake2b(one, digest_size=HASH_BYTES).digest() for one in records)
    numbers = split_numbers(np.frombuffer(digests, "<u8").astype(np.uint64), options.ratios)
    names = [SPLITS[number] for number in numbers]
    return [given if given and name in options.given else name for name in names]


def _plain(column: pa.Array, feature: RecordFeature) -> pa.Array:
    """Return a column for the statistics: values, or lists of them, null where there are none."""
    if feature.dtype == BYTES:
        values = pc.list_flatten(column)
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([one.decode(errors="backslashreplace") for one in values.to_pylist()])
        column = pa.ListArray.from_arrays(column.offsets, texts)
    if feature.is_list:
        return column
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    starts = column.offsets.to_numpy(zero_copy_only=False)[:-1].astype(np.int64)
    places = pa.array(np.where(lengths > 0, starts, 0), mask=lengths == 0)
    return column.values.take(places)


def _new_statistics(schema: RecordSchema) -> dict[str, Statistic]:
    return {
        feature.name: new_statistic(
            KINDS[feature.dtype],
            is_list=feature.is_list,
            num_listed=MAX_CLASSES if feature.name == schema.label.name else 0,
        )
        for feature in schema.features
        if feature.is_counted
    }
