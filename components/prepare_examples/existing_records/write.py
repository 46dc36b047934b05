"""Checking, splitting and writing of the records of some files."""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
from components.prepare_examples.output.split_files import SplitFiles, open_splits, published
from components.prepare_examples.split_rule import Hashes, SplitRule, Times
from components.prepare_examples.statistics.states import Statistic, new_statistic
from components.prepare_examples.tables.results import PartResult, Tally
from components.prepare_examples.tables.table_schema import MAX_CLASSES
from components.prepare_examples.tfrecords.row_splits import hash_rows
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json

HASH_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Options of every part; `key` are the features whose hash decides, () for the whole record."""

    schema: RecordSchema
    rule: SplitRule
    num_shards: int
    compression: str
    key: tuple[str, ...] = ()
    max_records: int = 0


@dataclass(frozen=True)
class RecordPart:
    """The work of one call: its shards, and the paths of its files."""

    shards: list[int]
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Batch:
    """Records of a file from number `first` on."""

    path: str
    first: int
    records: list[bytes]


def write_part(part: RecordPart, *, options: RecordOptions, output_dir: str) -> PartResult:
    """Write the files of one part.

    Raises:
        DataError: a file is damaged.
    """
    folder, count = Path(output_dir), options.num_shards
    side = folder / f"quarantine-{part.shards[0]:05d}-of-{count:05d}.jsonl"
    bad: list[Json] = []
    tally = Tally()
    with contextlib.ExitStack() as stack:
        splits = open_splits(
            stack,
            part.shards,
            folder=folder,
            num_shards=count,
            compression=options.compression,
            new_statistics=lambda: _new_statistics(options.schema),
        )
        for path in part.files:
            for records in batches(read_records(Path(path))):
                left = options.max_records - tally.read if options.max_records else len(records)
                kept = records[: max(left, 0)]
                if kept:
                    batch = _Batch(path, tally.read, kept)
                    bad += _write_batch(batch, splits, options, tally)
                tally.read += len(kept)
    tally.quarantined = Counter(entry["column"] for entry in bad)
    tally.written = tally.read - len(bad) - tally.outside.total()
    return PartResult(
        shards=published(splits),
        quarantine=write_side_file(side, bad),
        statistics={name: split.statistics for name, split in splits.items()},
        tally=tally,
    )


def _write_batch(
    batch: _Batch, splits: dict[str, SplitFiles], options: RecordOptions, tally: Tally
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
    good = (
        {name: column.take(pa.array(rows)) for name, column in plain.items()} if len(rows) else {}
    )
    kept = pa.array([records[numbers[row]] for row in rows], pa.binary())
    splits_of_rows, hashes = (
        _split_numbers(kept, good, batch.path, options) if good else (rows, None)
    )
    outside = splits_of_rows[splits_of_rows < 0].tolist()
    tally.outside.update(map(options.rule.reason, outside))
    for number, split in enumerate(SPLITS):
        chosen = pa.array(np.flatnonzero(splits_of_rows == number))
        if good and len(chosen):
            part = {name: column.take(chosen) for name, column in good.items()}
            splits[split].add(part, kept.take(chosen), options.rule.keys(hashes, chosen))
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


def times_of(paths: Sequence[str], options: RecordOptions) -> Iterator[Times]:
    """Yield the times of all records that can be read, by which a rule splits them."""
    names = (options.rule.column, *options.rule.groups)
    features = [feature for feature in options.schema.features if feature.name in names]
    for path in paths:
        for records in batches(read_records(Path(path))):
            _, columns = _parsed(records, features)
            if columns:
                plain = {value.name: _plain(columns[value.name], value) for value in features}
                hashes = [plain[name] for name in options.rule.groups]
                yield plain[options.rule.column], hash_rows(hashes) if hashes else None


def _split_numbers(
    records: pa.Array, plain: Mapping[str, pa.Array], path: str, options: RecordOptions
) -> tuple[NDArray[np.int64], Hashes | None]:
    """Return the number of the split of each record, see SplitRule.numbers, and its hash if any."""
    rule, hashes = options.rule, None
    if rule.is_hashed and options.key:
        hashes = hash_rows([plain[name] for name in options.key])
    elif rule.is_hashed:
        some = records.to_pylist()
        digests = b"".join(
            hashlib.blake2b(content, digest_size=HASH_BYTES).digest() for content in some
        )
        hashes = np.frombuffer(digests, "<u8").astype(np.uint64)
    numbers = rule.numbers(
        len(records),
        file=path,
        values=plain.get(rule.column),
        hashes=hashes,
        groups=hash_rows([plain[name] for name in rule.groups]) if rule.groups else None,
    )
    return numbers, hashes


def _plain(column: pa.Array, feature: RecordFeature) -> pa.Array:
    """Return a column for the statistics: values, or lists of them, null where there are none."""
    if feature.dtype == BYTES:
        values = pc.list_flatten(column)
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array(
                [value.decode(errors="backslashreplace") for value in values.to_pylist()]
            )
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
