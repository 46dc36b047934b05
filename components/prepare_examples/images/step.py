"""Images: the rows of each split are known beforehand, so each shard is a range of rows."""

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
class ImagePlan:
    """What is to be written, and from what."""

    workload: str
    data_dir: Path
    shards: list[Shard]
    header: Json
    is_verified: bool
    beam_options: tuple[str, ...]


def plan(workload: str, data_dir: Path, options: PrepareOptions) -> ImagePlan:
    """Fetch and checks the raw files, and plans the shards."""
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
    return ImagePlan(workload, data_dir, shards, header, is_verified, options.beam_options)


def explain(found: ImagePlan) -> list[str]:
    """The plan in words, a line for each file."""
    return [
        f"{shard.file}: rows {shard.start:,} to {shard.stop:,} of {shard.part}"
        for shard in found.shards
    ]


def write(found: ImagePlan, folder: Path) -> None:
    """Write the shards and then the manifest; the raw files are summed while Beam starts."""
    with ThreadPoolExecutor(1) as thread:
        sources = thread.submit(_sources, found)
        result = write_examples(
            found.shards,
            workload=found.workload,
            data_dir=found.data_dir,
            output_dir=folder,
            beam_options=found.beam_options,
        )
        header = {**found.header, "sources": sources.result()}
    write_manifest(result, header=header, folder=folder)


def _sources(found: ImagePlan) -> list[Json]:
    """The raw files; the digests of verified ones are known."""
    return [
        {
            "file": file.name,
            "sha256": file.sha256 if found.is_verified else sha256_of(found.data_dir / file.name),
            "verified": found.is_verified,
        }
        for file in source_of(found.workload).files
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
