"""Preparation of images: the splits are given by the raw files, and shards are ranges of rows."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.images.beam_pipeline import write_examples, write_manifest
from components.prepare_examples.images.formats import IMAGES
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.raw_data.sources import source_of
from components.prepare_examples.tfrecords.shards import (
    COMPRESSIONS,
    Rows,
    Shard,
    limit_splits,
    plan_shards,
)
from trainer.json_types import Json


@dataclass(frozen=True)
class ImageJob:
    """A planned run: its shards, and the manifest's first fields."""

    workload: str
    data_dir: Path
    shards: list[Shard]
    header: Json
    is_verified: bool
    beam_options: tuple[str, ...]


def plan(workload: str, data_dir: Path, options: PrepareOptions) -> ImageJob:
    """Fetch and check the raw files, and plan the shards."""
    options.check_images(workload)
    fetch(workload, data_dir, trust_files=options.trust_files)
    splits = limit_splits(IMAGES[workload].splits(data_dir), options.max_examples)
    compression = COMPRESSIONS[options.compression]
    row_bytes = IMAGES[workload].row_bytes
    num_shards = {
        name: options.planned_shards((rows.stop - rows.start) * row_bytes, split=name)
        for name, rows in splits.items()
    }
    shards = plan_shards(splits, num_shards, compression=compression)
    header = _header(workload, splits, options)
    is_verified = not options.trust_files
    return ImageJob(workload, data_dir, shards, header, is_verified, options.beam_options)


def explain(job: ImageJob) -> list[str]:
    """Return the plan as text, a line for each file."""
    return [
        f"{shard.file}: rows {shard.start:,} to {shard.stop:,} of {shard.part}"
        for shard in job.shards
    ]


def write(job: ImageJob, folder: Path) -> None:
    """Write the shards and then the manifest; the raw files are digested while Beam starts."""
    with ThreadPoolExecutor(1) as thread:
        sources = thread.submit(_sources, job)
        result = write_examples(
            job.shards,
            workload=job.workload,
            data_dir=job.data_dir,
            output_dir=folder,
            beam_options=job.beam_options,
        )
        header = {**job.header, "sources": sources.result()}
    write_manifest(result, header=header, folder=folder)


def _sources(job: ImageJob) -> list[Json]:
    """Return the raw files' entries; the digests of verified files are known."""
    return [
        {
            "file": file.name,
            "sha256": file.sha256 if job.is_verified else sha256_of(job.data_dir / file.name),
            "verified": job.is_verified,
        }
        for file in source_of(job.workload).files
    ]


def _header(workload: str, splits: Mapping[str, Rows], options: PrepareOptions) -> Json:
    split_rule = IMAGES[workload].split_rule
    if options.max_examples:
        kept = {name: rows.stop - rows.start for name, rows in splits.items()}
        split_rule += f"; limited to the first of each: {json.dumps(kept)}"
    return {
        "workload": workload,
        "compression": COMPRESSIONS[options.compression],
        "split_rule": split_rule,
        "settings": options.changed(),
    }
