"""Checking, splitting and writing of the records of some files."""

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
from components.prepare_examples.output.split_files import SplitFiles, open_splits
from components.prepare_examples.raw_data.files import digests_of
from components.prepare_examples.statistics.states import Statistic, new_statistic
from components.prepare_examples.tables.table_schema import MAX_CLASSES
from components.prepare_examples.tfrecords.row_splits import split_numbers
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json

HASH_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Options of every part; `given` are the splits for which there are files."""

    schema: str
    ratios: Mapping[str, float]
    num_shards: int
    compression: str
    given: tuple[str, ...] = ()
    max_records: int = 0

    def to_json(self) -> str:
        """Return the options as text, to pass through Beam."""
        return json.dumps(asdict(self))


def write_part(part: tuple[list[int], list[Any]], *, options_json: str, output_dir: str) -> Json:
    """Write the files of one part; return their entries, the statistics and the tally.

    Args:
        part: its shards, and path and given split of each of its files.
        options_json: of RecordOptions.
        output_dir: the folder of the shards.

    Raises:
        DataError: a file is damaged.
    """
    shards, files = part
    content = json.loads(options_json)
    options = RecordOptions(**{**content, "given": tuple(content["given"])})
    schema = RecordSchema.from_json(options.schema)
    folder, count = Path(output_dir), options.num_shards
    side = folder / f"quarantine-{shards[0]:05d}-of-{count:05d}.jsonl"
    bad: list[Json] = []
    num_read = 0
    with contextlib.ExitStack() as stack:
        splits = open_splits(
            stack,
            shards,
            folder=folder,
            num_shards=count,
            compression=options.compression,
            new_statistics=lambda: _new_statistics(schema),
        )
        for path, given in files:
            for batch in batches(read_records(Path(path))):
                left = options.max_records - num_read if options.max_records else len(batch)
                kept = batch[: max(left, 0)]
                if kept:
                    _write_batch(kept, (path, num_read, given), splits, (schema, options), bad)
                num_read += len(kept)
    return {
        "shards": [entry for name, split in splits.items() for entry in split.publish(name)],
        "quarantine": _write_side(side, bad),
        "statistics": {name: split.states() for name, split in splits.items()},
        "tally": {
            **{"read": num_read, "written": num_read - len(bad), "filtered": 0},
            **{"unlabelled": 0, "headers": 0},
            "quarantined": dict(Counter(entry["column"] for entry in bad)),
            **{"missing": {}, "zones": {}, "differing": {}, "labels": {}},
        },
    }


def _write_batch(
    records: list[bytes],
    place: tuple[str, int, str],
    splits: dict[str, SplitFiles],
    how: tuple[RecordSchema, RecordOptions],
    bad: list[Json],
) -> None:
    path, first, given = place
    schema, options = how
    reasons, columns = _parsed(records, schema.features)
    places = np.array([number for number in range(len(records)) if number not in reasons], int)
    found = {}
    for feature in schema.features if columns else ():
        column = columns[feature.name]
        for row, reason in wrong_values(column, feature, schema.label).items():
            reasons.setdefault(int(places[row]), (feature.name, reason))
        found[feature.name] = _plain(column, feature)
    for number in sorted(reasons):
        name, reason = reasons[number]
        entry = {"file": path, "row": first + number + 1, "column": name, "reason": reason}
        bad.append(entry)
    rows = np.array([row for row, number in enumerate(places) if int(number) not in reasons], int)
    names = _splits_of([records[places[row]] for row in rows], given, options)
    for split in SPLITS:
        chosen = rows[[name == split for name in names]] if len(rows) else rows
        if len(chosen):
            part = {name: column.take(pa.array(chosen)) for name, column in found.items()}
            kept = pa.array([records[places[row]] for row in chosen], pa.binary())
            splits[split].add(part, kept)


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
    first = pc.list_element(column, 0) if _has_values(column) else _first_or_null(column)
    return first


def _has_values(column: pa.Array) -> bool:
    return bool(pc.all(pc.greater(pc.list_value_length(column), 0)).as_py())


def _first_or_null(column: pa.Array) -> pa.Array:
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


def _write_side(path: Path, bad: list[Json]) -> list[Json]:
    if not bad:
        return []
    path.write_text("".join(json.dumps(entry) + "\n" for entry in bad), encoding="utf-8")
    return [{"file": path.name, "num_rows": len(bad), **digests_of(path)}]
