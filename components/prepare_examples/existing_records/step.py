"""Preparation of records that exist already."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import RecordSchema, schema_of
from components.prepare_examples.existing_records.write import RecordOptions, write_part
from components.prepare_examples.images.folder_step import ALLOWED
from components.prepare_examples.images.folders import GIVEN
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import (
    finish_dataset,
    splits_of_entries,
    statistics_of,
)
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import find_files, sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.beam_pipeline import finish
from components.prepare_examples.tables.checks import check_label
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer import Json
from trainer.workloads import Workload

Part = tuple[list[int], list[tuple[str, str]]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordJob:
    """A planned run: its parts, the options of writing them, and the manifest's first fields."""

    parts: list[Part]
    schema: RecordSchema
    options: RecordOptions
    header: Json
    settings: PrepareOptions


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> RecordJob:
    """Find the files, or fetch those of the source; plan the parts."""
    options.check_images(workload.name, allowed=ALLOWED)
    if options.files:
        paths = find_files([str(local_path(pattern)) for pattern in options.files])
    else:
        fetched = fetch(workload.reference, data_dir, trust_files=options.trust_files)
        paths = [str(path) for path in fetched.values()]
    schema = schema_of(workload, sample_of(list(map(Path, paths))))
    files = [(path, split_in_name(path)) for path in paths]
    given = {split for _, split in files}
    if "train" not in given or "" in given:
        files, given = [(path, "") for path in paths], set()
    num_shards = options.planned_shards(sum(Path(path).stat().st_size for path in paths))
    parts = plan_parts(files, num_shards)
    ratios = ", ".join(f"{name} {ratio:.4g}" for name, ratio in options.ratios.items())
    rule = f"by a hash of the record: {ratios}"
    if given:
        rule = f"by the names of the files ({', '.join(sorted(given))}); else {rule}"
    compression = COMPRESSIONS[options.compression]
    is_verified = not options.files and not options.trust_files
    header = {
        "workload": workload.name,
        "compression": compression,
        "split_rule": rule,
        "label": schema.label.words,
        "sources": [
            {"file": Path(path).name, "sha256": sha256_of(Path(path)), "verified": is_verified}
            for path in paths
        ],
        "settings": options.changed(),
    }
    write_options = RecordOptions(
        schema=schema.to_json(),
        ratios=options.ratios,
        num_shards=num_shards,
        compression=compression,
        given=tuple(sorted(given)),
        max_records=-(-options.max_examples // len(parts)),
    )
    return RecordJob(parts, schema, write_options, header, options)


def split_in_name(path: str) -> str:
    """Return the split that a file's name begins with, or that its folder is named for; else ""."""
    file = Path(path)
    folder = file.parent.name.lower().removeprefix("split-")  # as TFX names it
    start = file.name.lower().replace("_", "-").replace(".", "-").split("-")[0]
    return GIVEN.get(start, GIVEN.get(folder, ""))


def plan_parts(files: list[tuple[str, str]], num_shards: int) -> list[Part]:
    """Return parts of about equally many bytes; a file is read by one part only.

    With fewer files than shards, a part writes several shards.
    """
    sizes = [Path(path).stat().st_size + 1 for path, _ in files]
    total, done = sum(sizes), 0
    groups: list[list[tuple[str, str]]] = [[] for _ in range(num_shards)]
    for file, size in zip(files, sizes, strict=True):
        groups[min(done * num_shards // total, num_shards - 1)].append(file)
        done += size
    parts: list[Part] = []
    for number, group in enumerate(groups):
        if group or not parts:
            parts.append(([number], group))
        else:
            parts[-1][0].append(number)
    return parts


def explain(job: RecordJob) -> list[str]:
    """Return the plan as text, a line for each file."""
    lines = [job.header["split_rule"]]
    for shards, files in job.parts:
        numbers = ", ".join(f"{shard:05d}" for shard in shards)
        lines += [f"shard {numbers} of {job.options.num_shards}: {path}" for path, _ in files]
    return lines


def write(job: RecordJob, folder: Path) -> None:
    """Write the shards, the statistics and then the manifest.

    Raises:
        DataError: a file is damaged, too many records are bad, a split is empty, the label has one
            value, or there are anomalies that block.
    """
    settings = job.settings
    result = run_pipeline(
        job.parts,
        partial(write_part, options_json=job.options.to_json(), output_dir=str(folder)),
        finish,
        folder=folder,
        flags=settings.beam_options,
        in_processes=False,  # TensorFlow, which parses, does not survive a fork
    )
    conclude(job, result, folder)


def conclude(job: RecordJob, result: Json, folder: Path) -> None:
    """Check the records that were written, and describe them, in the manifest last.

    Raises:
        DataError: see `write`.
    """
    settings = job.settings
    quarantine.check_share(result, folder, max_share=settings.max_quarantine, what="records")
    tally = result["tally"]
    splits = splits_of_entries(result["shards"])
    for name, split in splits.items():
        if not split["num_examples"]:
            raise DataError(f"the {name} split would be empty; use more records, or other ratios")
    check_label(result["statistics"], {}, job.schema.label, quarantined=tally["quarantined"])
    names = [feature.name for feature in job.schema.features if feature.is_counted]
    statistics = statistics_of(
        result["statistics"], splits, workload=job.schema.workload, names=names
    )
    manifest = {
        **job.header,
        "rows": {
            **{name: tally[name] for name in ("read", "written", "filtered")},
            "quarantined": sum(tally["quarantined"].values()),
        },
        "quarantine": quarantine.manifest_entry(result),
        "splits": splits,
    }
    finish_dataset(manifest, statistics, folder, settings=settings)
