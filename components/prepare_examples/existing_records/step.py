"""Preparation of records that exist already."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError, Refuse, Write
from components.prepare_examples.existing_records.read import (
    batches,
    parse,
    read_records,
    sample_of,
)
from components.prepare_examples.existing_records.record_schema import (
    BYTES,
    INT,
    RecordFeature,
    RecordSchema,
    schema_of,
    wrong_values,
)
from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.images.step import ALLOWED
from components.prepare_examples.output.manifest import source_entry
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.parts import (
    Part,
    PartFiles,
    PartOptions,
    PartResult,
    as_parts,
    finish,
    open_part,
)
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import cached_digests, find_files
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import Hashes, Times, rule_of, split_of
from components.prepare_examples.tables.outcome import Outcome
from components.prepare_examples.tfrecords.row_splits import hash_rows
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer.workloads import Workload
from trainer.workloads.declarations.split import HASH

HASH_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class RecordOptions(PartOptions):
    """Options of every part; `key` are the features whose hash decides, () for the whole record."""

    schema: RecordSchema
    key: tuple[str, ...] = ()
    max_records: int = 0


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> Write:
    """Find the files, or fetch the source's; plan the parts."""
    options.check_images(workload.name, allowed=(*ALLOWED, "split_key"))
    if options.files:
        paths = find_files([str(local_path(pattern)) for pattern in options.files])
    else:
        fetched = fetch(workload.reference, data_dir, trust_files=options.trust_files)
        paths = [str(path) for path in fetched.values()]
    num_shards = options.planned_shards(sum(Path(path).stat().st_size for path in paths))
    parts = plan_parts(paths, num_shards)
    is_verified = not options.files and not options.trust_files
    chosen = _options(workload, paths, parts, options)
    sources = [
        source_entry(path.name, sha256, is_verified=is_verified)
        for path, (_, sha256) in cached_digests(map(Path, paths), folder=data_dir).items()
    ]

    def write(folder: Path, refuse: Refuse) -> None:
        result = run_pipeline(
            parts,
            partial(write_part, options=chosen, output_dir=str(folder)),
            finish,
            folder=folder,
            flags=options.beam_options,
            in_processes=False,  # TensorFlow, which parses, does not survive a fork
        )
        outcome = Outcome(
            options=chosen,
            settings=options,
            result=result,
            folder=folder,
            refuse=refuse,
            what="records",
        )
        outcome.check_share()
        outcome.check_splits()
        outcome.check_label()
        outcome.describe(sources=sources)

    return write


def _options(
    workload: Workload, paths: list[str], parts: Sequence[Part[str]], options: PrepareOptions
) -> RecordOptions:
    """Return the options of writing, with the rule of the splits.

    Raises:
        DataError: the records have no feature that decides the split; or see SplitRule.with_times.
    """
    key = options.split_key
    rule = rule_of(
        split_of(workload, options), options, hashed=" and ".join(key) or "the record", paths=paths
    )
    files = {path: split_in_name(path) for path in paths}
    splits = {*files.values()}
    if rule.split.by == HASH and "train" in splits and "" not in splits:
        names = f"by the names of the files ({', '.join(sorted(splits))}); else"
        rule = replace(rule, files=files, named=tuple(sorted(splits)), given=names)
    sample = sample_of(list(map(Path, paths)))
    deciding = tuple(filter(None, (rule.column, *key)))
    chosen = RecordOptions(
        schema=schema_of(workload, sample, deciding=deciding),
        rule=rule,
        num_shards=sum(len(part.shards) for part in parts),
        compression=COMPRESSIONS[options.compression],
        key=key,
        max_records=-(-options.max_examples // len(parts)),
    )
    if not (rule.column and rule.split.has_windows):
        return chosen
    [dtype] = [value.dtype for value in chosen.schema.features if value.name == rule.column]
    if dtype != INT:
        raise DataError(
            f"split is by {rule.column}, which is {dtype}; a time is a number of Unix seconds,"
            f" {INT}"
        )
    rule = replace(rule, zone="UTC", groups=key)
    chosen = replace(chosen, rule=rule)
    return replace(chosen, rule=rule.with_times(times_of(paths, chosen)))


def split_in_name(path: str) -> str:
    """Return the split that a file's name begins with, or that its folder is named for; else ""."""
    file = Path(path)
    folder = file.parent.name.lower().removeprefix("split-")  # as TFX names it
    start = file.name.lower().replace("_", "-").replace(".", "-").split("-")[0]
    return GIVEN.get(start, GIVEN.get(folder, ""))


def plan_parts(files: list[str], num_shards: int) -> Sequence[Part[str]]:
    """Return parts of about equally many bytes; a file is read by one part only.

    With fewer files than shards, a part writes several shards.
    """
    sizes = [Path(path).stat().st_size + 1 for path in files]
    total, done = sum(sizes), 0
    groups: list[list[str]] = [[] for _ in range(num_shards)]
    for file, size in zip(files, sizes, strict=True):
        groups[min(done * num_shards // total, num_shards - 1)].append(file)
        done += size
    return as_parts(groups)


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
    lengths = np.asarray(pc.list_value_length(column))
    starts = np.asarray(column.offsets, np.int64)[:-1]
    places = pa.array(np.where(lengths > 0, starts, 0), mask=lengths == 0)
    return column.values.take(places)
