"""Checking, splitting and writing of the records of some files."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.existing_records.read import (
    batches,
    parse,
    read_records,
)
from components.prepare_examples.existing_records.record_schema import (
    BYTES,
    RecordFeature,
    RecordSchema,
    wrong_values,
)
from components.prepare_examples.parts import Part, PartFiles, PartOptions, PartResult, open_part
from components.prepare_examples.split_rule import Hashes, Times
from components.prepare_examples.tfrecords.row_splits import hash_rows

HASH_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class RecordOptions(PartOptions):
    """Options of every part; `key` are the features whose hash decides, () for the whole record."""

    schema: RecordSchema
    key: tuple[str, ...] = ()
    max_records: int = 0


def write_part(part: Part[str], *, options: RecordOptions, output_dir: str) -> PartResult:
    """Write the files of one part; DataError if a file is damaged."""
    with open_part(part.shards, Path(output_dir), options) as files:
        for path in part.inputs:
            first = 1
            left = options.max_records - files.tally.read if options.max_records else None
            for records in batches(islice(read_records(Path(path)), left)):
                _write_batch(records, path, files, options, first=first)
                files.tally.read += len(records)
                first += len(records)
    return files.result()


def _write_batch(
    records: list[bytes], path: str, files: PartFiles, options: RecordOptions, *, first: int
) -> None:
    schema = options.schema
    reasons, columns = parse(records, schema.features)
    read = np.array([number for number in range(len(records)) if number not in reasons], int)
    plain = {}
    for feature in schema.features if columns else ():
        column = columns[feature.name]
        for row, reason in wrong_values(column, feature, schema.label).items():
            reasons.setdefault(int(read[row]), (feature.name, reason))
        plain[feature.name] = _plain(column, feature)
    files.refuse(
        [
            {"file": path, "row": first + number, "column": name, "reason": reason}
            for number, (name, reason) in sorted(reasons.items())
        ]
    )
    rows = np.array([row for row, number in enumerate(read) if int(number) not in reasons], int)
    if len(rows):
        good = {name: column.take(pa.array(rows)) for name, column in plain.items()}
        kept = pa.array([records[read[row]] for row in rows], pa.binary())
        hashes = _hashes(kept, good, options)
        groups = options.rule.groups
        files.write(
            good,
            kept,
            path=path,
            values=good.get(options.rule.column),
            hashes=hashes,
            groups=hash_rows([good[name] for name in groups]) if groups else None,
        )


def times_of(paths: Sequence[str], options: RecordOptions) -> Iterator[Times]:
    """Yield the times of all records that can be read, by which a rule splits them."""
    names = (options.rule.column, *options.rule.groups)
    features = [feature for feature in options.schema.features if feature.name in names]
    for path in paths:
        for records in batches(read_records(Path(path))):
            _, columns = parse(records, features)
            if columns:
                plain = {value.name: _plain(columns[value.name], value) for value in features}
                hashes = [plain[name] for name in options.rule.groups]
                yield plain[options.rule.column], hash_rows(hashes) if hashes else None


def _hashes(
    records: pa.Array, columns: Mapping[str, pa.Array], options: RecordOptions
) -> Hashes | None:
    """Return the hashes of the records' keys, or of whole records, if any of them decides."""
    if not options.rule.is_hashed:
        return None
    if options.key:
        return hash_rows([columns[name] for name in options.key])
    digests = (
        hashlib.blake2b(content, digest_size=HASH_BYTES).digest() for content in records.to_pylist()
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


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
