"""Preparation of images: the splits are given by the raw files, and shards are ranges of rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.images.beam_pipeline import write_examples, write_manifest
from components.prepare_examples.images.formats import row_bytes, splits_of
from components.prepare_examples.output.manifest import LIMITED
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import in_threads, sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import (
    COMPRESSIONS,
    Rows,
    Shard,
    limit_splits,
    plan_shards,
)
from trainer import Json
from trainer.workloads.base import Workload
from trainer.workloads.declarations.sources import ImageFormat, Source


@dataclass(frozen=True)
class ImageJob:
    """A planned run: its shards, and the manifest's first fields."""

    workload: Workload
    data_dir: Path
    shards: list[Shard]
    header: Json
    is_verified: bool
    beam_options: tuple[str, ...]


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> ImageJob:
    """Fetch and check the raw files, and plan the shards."""
    options.check_images(workload.name)
    kind = format_of(workload)
    fetch(workload.reference, data_dir, trust_files=options.trust_files)
    splits = limit_splits(splits_of(kind, data_dir), options.max_examples)
    compression = COMPRESSIONS[options.compression]
    num_shards = {
        name: options.planned_shards((rows.stop - rows.start) * row_bytes(kind), split=name)
        for name, rows in splits.items()
    }
    shards = plan_shards(splits, num_shards, compression=compression)
    header = _header(workload, splits, options)
    is_verified = not options.trust_files
    return ImageJob(workload, data_dir, shards, header, is_verified, options.beam_options)


def _source(workload: Workload) -> Source:
    assert workload.source is not None
    return workload.source


def format_of(workload: Workload) -> ImageFormat:
    """Return the format of a workload's images."""
    kind = _source(workload).format
    assert kind is not None
    return kind


def explain(job: ImageJob) -> list[str]:
    """Return the plan as text, a line for each file."""
    return [
        f"{shard.file}: rows {shard.start:,} to {shard.stop:,} of {shard.part}"
        for shard in job.shards
    ]


def write(job: ImageJob, folder: Path) -> None:
    """Write the shards and then the manifest."""
    header = {**job.header, "sources": _sources(job)}
    result = write_examples(
        job.shards,
        kind=format_of(job.workload),
        data_dir=job.data_dir,
        output_dir=folder,
        beam_options=job.beam_options,
    )
    num_bytes = row_bytes(format_of(job.workload))
    write_manifest(result, header=header, folder=folder, num_bytes=num_bytes)


def _sources(job: ImageJob) -> list[Json]:
    """Return the raw files' entries; the digests of verified files are known."""
    files = _source(job.workload).files
    digests = [file.sha256 for file in files]
    if not job.is_verified:
        digests = in_threads(lambda file: sha256_of(job.data_dir / file.name), files)
    return [
        {"file": file.name, "sha256": sha256, "verified": job.is_verified}
        for file, sha256 in zip(files, digests, strict=True)
    ]


def _header(workload: Workload, splits: Mapping[str, Rows], options: PrepareOptions) -> Json:
    kind = format_of(workload)
    split_rule = kind.split_rule or (
        f"by the given order: eval is the last 1 / {kind.eval_share} of the training files"
    )
    if options.max_examples:
        kept = {name: rows.stop - rows.start for name, rows in splits.items()}
        split_rule += f"{LIMITED}the first of each: {json.dumps(kept)}"
    return {
        "workload": workload.name,
        "compression": COMPRESSIONS[options.compression],
        "split_rule": split_rule,
        "settings": options.changed(),
    }
