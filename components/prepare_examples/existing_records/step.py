"""Preparation of records that exist already."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError, Refuse, Write
from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import INT, schema_of
from components.prepare_examples.existing_records.write import (
    RecordOptions,
    times_of,
    write_part,
)
from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.images.step import ALLOWED
from components.prepare_examples.output.manifest import source_entry
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.parts import Part, as_parts, finish
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import find_files, sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import rule_of, split_of
from components.prepare_examples.tables.outcome import Outcome
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer.workloads import Workload
from trainer.workloads.declarations.split import HASH

logger = logging.getLogger(__name__)


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
        source_entry(Path(path).name, sha256_of(Path(path)), is_verified=is_verified)
        for path in paths
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
