"""Writing of a shard of images, and the sum of all shards.

Elements of the Beam pipeline describe shards and hold no data, neither pixels nor names: one call
reads a range of the raw files, or of a list of files in the output folder, encodes it and writes
it. A pipeline of single examples has a tenth of the throughput, and `beam.Create` of image data a
hundredth (DESIGN.md, fact 17).
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.raw_files import batches_of, num_channels, row_bytes
from components.prepare_examples.output.manifest import splits_of_entries
from components.prepare_examples.output.quarantine import write_side_file
from components.prepare_examples.raw_data.progress import Progress
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.image_encoder import Batch, ImageEncoder
from components.prepare_examples.tfrecords.records import RecordFile, compress_images, record_file
from components.prepare_examples.tfrecords.shards import SPLITS, Shard
from trainer import Json
from trainer.workloads.declarations.decoding import Decoding
from trainer.workloads.declarations.sources import ImageFormat
from trainer.workloads.encoding.image_files import decode_image

LISTING = ".files.partial"
MAX_BATCH = 64
MAX_BATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class FolderOptions:
    """Options of every shard of a folder."""

    root: str
    decoding: Decoding
    num_classes: int

    @property
    def batch_size(self) -> int:
        """The number of images that are decoded at a time."""
        return min(MAX_BATCH, max(1, MAX_BATCH_BYTES // self.decoding.num_pixels))


def write_shard(shard: Shard, *, kind: ImageFormat, data_dir: str, output_dir: str) -> Json:
    """Write one file of raw images; return its entry for the manifest, and statistics."""
    channels = num_channels(kind)
    statistics = ImageStatistics(channels)
    encoder = ImageEncoder(num_channels=channels, num_pixels=row_bytes(kind) // channels)
    with record_file(Path(output_dir, shard.file), compression="") as file:
        for batch in batches_of(kind, Path(data_dir), shard):
            statistics.add(batch)
            file.write(_compressed(encoder.encode(*batch), shard))
        planned, num_images = shard.stop - shard.start, statistics.num_images
        if num_images != planned:
            raise DataError(
                f"{planned:,} images were planned for {shard.file}, but {num_images:,} read: a raw"
                " file has changed; run again when no program writes to it"
            )
    return _entry(shard, statistics, file)


def write_folder_shard(
    element: tuple[Shard, int], *, options: FolderOptions, output_dir: str
) -> Json:
    """Write one file of images of a folder; return its entry for the manifest, and the tally.

    The element has the shard, and the offset of its first line in the list of files.
    """
    shard, offset = element
    channels = options.decoding.channels
    statistics, bad, digest = ImageStatistics(channels), list[Json](), 0
    progress = Progress(shard.file, "images", shard.stop - shard.start)
    encoder = ImageEncoder(
        num_channels=channels,
        num_pixels=math.prod(options.decoding.size),
        num_classes=options.num_classes,
    )
    with (
        Path(output_dir, LISTING).open(encoding="utf-8") as listing,
        record_file(Path(output_dir, shard.file), compression="") as file,
    ):
        listing.seek(offset)
        lines = (listing.readline() for _ in range(shard.stop - shard.start))
        while some := list(islice(lines, options.batch_size)):
            decoded = decode_files(some, options=options)
            if decoded.batch:
                statistics.add(decoded.batch)
                file.write(_compressed(encoder.encode(*decoded.batch), shard))
            bad += decoded.bad
            digest += decoded.digest
            progress.show(statistics.num_images + len(bad))
    return {"entry": _entry(shard, statistics, file), "bad": bad, "digest": digest}


@dataclass(frozen=True)
class Decoded:
    """The images of some files with their labels, the bad ones, and the sum of all digests."""

    batch: Batch | None
    bad: list[Json]
    digest: int


def decode_files(lines: Sequence[str], *, options: FolderOptions) -> Decoded:
    """Return the images of lines of the list of files, each path and class as JSON."""
    images, labels, bad, digest = [], [], list[Json](), 0
    for path, label in map(json.loads, lines):
        with open(os.path.join(options.root, path), "rb") as file:  # faster than Path
            data = file.read()
        sha256 = hashlib.sha256(data).hexdigest()
        # A sum does not depend on the order, and so not on the number of shards.
        digest += int(hashlib.sha256(f"{path}\0{sha256}".encode()).hexdigest(), 16)
        try:
            image = decode_image(data, options.decoding)
        except ValueError as error:
            bad.append(_bad(path, str(error)))
            continue
        images.append(image.reshape(-1, options.decoding.channels))
        labels.append(label)
    if not images:
        return Decoded(None, bad, digest)
    return Decoded((np.stack(images).transpose(0, 2, 1), np.array(labels, np.int64)), bad, digest)


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


def finish_folder(
    results: Iterable[Json], *, output_dir: str, refused: list[tuple[str, str]]
) -> Json:
    """Return the splits, their statistics, the quarantine and the digest."""
    shards = list(results)
    bad = [_bad(path, reason) for path, reason in refused]
    bad += [entry for result in shards for entry in result["bad"]]
    merged = merge_entries(result["entry"] for result in shards)
    num_written = sum(split["num_examples"] for split in merged["splits"].values())
    return {
        **merged,
        "tally": {
            "read": num_written + len(bad),
            "written": num_written,
            "filtered": 0,
            "quarantined": {"image": len(bad)} if bad else {},
        },
        "quarantine": write_side_file(
            Path(output_dir, "quarantine-00000-of-00001.jsonl"),
            sorted(bad, key=lambda entry: str(entry["file"])),
        ),
        "digest": f"{sum(result['digest'] for result in shards) % 2**256:064x}",
    }


def _compressed(rows: NDArray[np.uint8], shard: Shard) -> bytes | NDArray[np.uint8]:
    """Return framed rows as a member of a gzip file, or as they are, as the shard's name says."""
    return compress_images(rows) if shard.file.endswith(".gz") else rows


def _entry(shard: Shard, statistics: ImageStatistics, file: RecordFile) -> Json:
    return {
        "split": shard.split,
        "file": shard.file,
        "num_examples": statistics.num_images,
        **file.digests(),
        "statistics": statistics,
    }


def _bad(path: str, reason: str) -> Json:
    return {"file": path, "column": "image", "reason": reason}
