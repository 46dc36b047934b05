"""The Beam pipeline of images: its elements are shards, its result their manifest entries.

Elements describe shards and hold no data: one call reads a range of the raw files, encodes it and
writes it. A pipeline of single examples has a tenth of the throughput, and `beam.Create` of image
data a hundredth (DESIGN.md, fact 17).
"""

import os
from collections.abc import Iterable
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.formats import batches_of, num_channels, row_bytes
from components.prepare_examples.output.manifest import splits_of_entries
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.image_encoder import ImageEncoder
from components.prepare_examples.tfrecords.records import RecordFile, compress_images, record_file
from components.prepare_examples.tfrecords.shards import SPLITS, Shard
from trainer import Json
from trainer.workloads.declarations.sources import ImageFormat


def write_shard(shard: Shard, *, kind: ImageFormat, data_dir: str, output_dir: str) -> Json:
    """Write one TFRecord file, in one step; return its entry for the manifest, and statistics."""
    path = Path(output_dir, shard.file)
    unfinished = path.with_name(f".{path.name}.partial")
    is_compressed = path.suffix == ".gz"
    channels = num_channels(kind)
    statistics = ImageStatistics(channels)
    encoder = ImageEncoder(num_channels=channels, num_pixels=row_bytes(kind) // channels)
    with record_file(unfinished, compression="") as file:  # batches are compressed
        for batch in batches_of(kind, Path(data_dir), shard):
            statistics.add(batch)
            rows = encoder.encode(*batch)
            file.write(compress_images(rows) if is_compressed else rows)
    _check_count(shard, statistics.num_images)
    os.replace(unfinished, path)
    return shard_entry(shard, statistics, file)


def shard_entry(shard: Shard, statistics: ImageStatistics, file: RecordFile) -> Json:
    """Return the manifest's entry of a file that is complete, with its statistics."""
    return {
        "split": shard.split,
        "file": shard.file,
        "num_examples": statistics.num_images,
        **file.digests(),
        "statistics": statistics,
    }


def merge_entries(entries: Iterable[Json]) -> Json:
    """Return the manifest's `splits`, and the splits of statistics.json."""
    entries = sorted(entries, key=lambda entry: str(entry["file"]))
    merged: dict[str, ImageStatistics] = {}
    for entry in entries:
        name, statistics = entry["split"], entry["statistics"]
        if name in merged:
            merged[name].merge(statistics)
        else:
            merged[name] = statistics
    summaries = {name: merged[name].summary() for name in SPLITS if name in merged}
    return {"splits": splits_of_entries(entries), "statistics": summaries}


def _check_count(shard: Shard, num_images: int) -> None:
    if num_images != shard.stop - shard.start:
        raise DataError(
            f"{shard.stop - shard.start:,} images were planned for {shard.file}, but {num_images:,}"
            " read: a raw file has changed; run again when no program writes to it"
        )
