"""Preparation of images: the splits are given by the raw files, and shards are ranges of rows."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import Refuse, fail
from components.prepare_examples.images.raw_files import row_bytes, splits_of
from components.prepare_examples.images.shards import merge_entries, write_shard
from components.prepare_examples.output.manifest import (
    LIMITED,
    Manifest,
    finish_dataset,
    source_entry,
)
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import in_threads, sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords.shards import (
    COMPRESSIONS,
    Shard,
    limit_splits,
    plan_shards,
)
from trainer import Json
from trainer.workloads.base import Workload
from trainer.workloads.declarations.sources import ImageFormat, Source


@dataclass(frozen=True, kw_only=True)
class ImageJob:
    """Planned shards, and facts for the manifest."""

    workload: str
    source: Source
    kind: ImageFormat
    data_dir: Path
    shards: list[Shard]
    split_rule: str
    settings: PrepareOptions

    def write(self, folder: Path, refuse: Refuse = fail) -> None:
        """Write the shards, the statistics and then the manifest; refuse what a run cannot use."""
        result = run_pipeline(
            self.shards,
            partial(
                write_shard, kind=self.kind, data_dir=str(self.data_dir), output_dir=str(folder)
            ),
            merge_entries,
            folder=folder,
            flags=self.settings.beam_options,
        )
        manifest = Manifest(
            workload=self.workload,
            compression=COMPRESSIONS[self.settings.compression],
            split_rule=self.split_rule,
            sources=self._sources(),
            settings=self.settings.changed(),
            splits=result["splits"],
        )
        statistics = {"workload": self.workload, "splits": result["statistics"]}
        finish_dataset(manifest, statistics, folder, settings=self.settings, refuse=refuse)

    def _sources(self) -> list[Json]:
        """Return the raw files' entries; the digests of verified files are known."""
        files, is_verified = self.source.files, not self.settings.trust_files
        digests = [file.sha256 for file in files]
        if not is_verified:
            digests = in_threads(lambda file: sha256_of(self.data_dir / file.name), files)
        return [
            source_entry(file.name, sha256, is_verified=is_verified)
            for file, sha256 in zip(files, digests, strict=True)
        ]


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> ImageJob:
    """Fetch and check the raw files, and plan the shards."""
    options.check_images(workload.name)
    source = workload.source
    assert source is not None
    assert source.format is not None
    kind = source.format
    fetch(workload.reference, data_dir, trust_files=options.trust_files)
    splits = limit_splits(splits_of(kind, data_dir), options.max_examples)
    sizes = {name: rows.stop - rows.start for name, rows in splits.items()}
    num_shards = {
        name: options.planned_shards(size * row_bytes(kind), split=name)
        for name, size in sizes.items()
    }
    rule = kind.split_rule or (
        f"by the given order: eval is the last 1 / {kind.eval_share} of the training files"
    )
    if options.max_examples:
        rule += f"{LIMITED}the first of each: {json.dumps(sizes)}"
    return ImageJob(
        workload=workload.name,
        source=source,
        kind=kind,
        data_dir=data_dir,
        shards=plan_shards(splits, num_shards, compression=COMPRESSIONS[options.compression]),
        split_rule=rule,
        settings=options,
    )
