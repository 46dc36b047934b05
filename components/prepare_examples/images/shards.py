"""Writing of a shard of images, and the sum of all shards.

Elements of the Beam pipeline describe shards and hold no data, neither pixels nor names: one call
reads a range of the raw files, or of a list of files in the output folder, encodes it and writes
it. A pipeline of single examples has a tenth of the throughput, and `beam.Create` of image data a
hundredth (DESIGN.md, fact 17).
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from components.prepare_examples.errors import DataError
from components.prepare_examples.images.raw_files import batches_of, num_channels
from components.prepare_examples.output.manifest import splits_of_entries
from components.prepare_examples.output.quarantine import write_side_file
from components.prepare_examples.raw_data.progress import ProgressLines
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.image_encoder import Batch, encode_images
from components.prepare_examples.tfrecords.records import compress_images, record_file
from components.prepare_examples.tfrecords.shards import SPLITS, Shard
from trainer import Json
from trainer.workloads.declarations.sources import ImageFormat
from trainer.workloads.encoding.decoding import Decoding
from trainer.workloads.encoding.image_files import decode_image

LISTING = ".files.partial"
MAX_BATCH = 64
MAX_BATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class Decoded:
    """Some images with their labels, the bad ones, and the sum of all digests."""

    batch: Batch | None
    bad: Sequence[Json] = ()
    digest: int = 0


@dataclass(frozen=True)
class RawImages:
    """Images in raw files."""

    kind: ImageFormat
    data_dir: str

    @property
    def channels(self) -> int:
        """The channels of an image."""
        return num_channels(self.kind)

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return self.kind.num_classes

    def read(self, shard: Shard, _offset: int, _folder: Path) -> Iterator[Decoded]:
        """Yield the images of a shard; DataError if the files have fewer."""
        num_images = 0
        for images, labels in batches_of(self.kind, Path(self.data_dir), shard):
            num_images += len(images)
            yield Decoded((images, labels))
        planned = shard.stop - shard.start
        if num_images != planned:
            raise DataError(
                f"{planned:,} images were planned for {shard.file}, but {num_images:,} read: a raw"
                " file has changed; run again when no program writes to it"
            )


@dataclass(frozen=True)
class FolderImages:
    """Image files below a folder."""

    root: str
    decoding: Decoding
    num_classes: int

    @property
    def channels(self) -> int:
        """The channels of an image."""
        return self.decoding.channels

    def read(self, shard: Shard, offset: int, folder: Path) -> Iterator[Decoded]:
        """Yield the images of a shard, whose files are listed from an offset on."""
        batch_size = min(MAX_BATCH, max(1, MAX_BATCH_BYTES // self.decoding.num_pixels))
        with Path(folder, LISTING).open(encoding="utf-8") as listing:
            listing.seek(offset)
            lines = (listing.readline() for _ in range(shard.stop - shard.start))
            while some := list(islice(lines, batch_size)):
                yield decode_files(some, images=self)


Images = RawImages | FolderImages


def write_shard(element: tuple[Shard, int], *, images: Images, output_dir: str) -> Json:
    """Write one file of images; return its entry for the manifest, the bad ones and the digests.

    The element has the shard, and the offset of its first line in the list of files.
    """
    shard, offset = element
    statistics, bad, digest = ImageStatistics(images.channels), list[Json](), 0
    progress = ProgressLines(shard.file, "images", shard.stop - shard.start)
    folder, is_compressed = Path(output_dir), shard.file.endswith(".gz")
    with record_file(folder / shard.file, compression="") as file:
        for decoded in images.read(shard, offset, folder):
            if decoded.batch:
                statistics.add(decoded.batch)
                rows = encode_images(*decoded.batch, num_classes=images.num_classes)
                file.write(compress_images(rows) if is_compressed else rows)
            bad += decoded.bad
            digest += decoded.digest
            progress.show(statistics.num_images + len(bad))
    return {
        "split": shard.split,
        "file": shard.file,
        "num_examples": statistics.num_images,
        **file.digests(),
        "statistics": statistics,
        "bad": bad,
        "digest": digest,
    }


def decode_files(lines: Sequence[str], *, images: FolderImages) -> Decoded:
    """Return the images of lines of the list of files, each path and class as JSON."""
    pixels, labels, bad, digest = [], [], list[Json](), 0
    channels = images.channels
    for path, label in map(json.loads, lines):
        with open(os.path.join(images.root, path), "rb") as file:  # faster than Path
            data = file.read()
        sha256 = hashlib.sha256(data).hexdigest()
        # A sum does not depend on the order, and so not on the number of shards.
        digest += int(hashlib.sha256(f"{path}\0{sha256}".encode()).hexdigest(), 16)
        try:
            image = decode_image(data, images.decoding)
        except ValueError as error:
            bad.append(bad_image(path, str(error)))
            continue
        pixels.append(image.reshape(-1, channels))
        labels.append(label)
    batch = (np.stack(pixels).transpose(0, 2, 1), np.array(labels, np.int64)) if pixels else None
    return Decoded(batch, bad, digest)


def bad_image(path: str, reason: str) -> Json:
    """Return the entry of an image that is not used."""
    return {"file": path, "column": "image", "reason": reason}


def finish(results: Iterable[Json], *, output_dir: str, refused: Sequence[Json] = ()) -> Json:
    """Return the manifest's `splits`, their statistics, the quarantine and the digest."""
    shards = sorted(results, key=lambda shard: str(shard["file"]))
    merged: dict[str, ImageStatistics] = {}
    for shard in shards:
        name, statistics = shard["split"], shard["statistics"]
        if name in merged:
            merged[name].merge(statistics)
        else:
            merged[name] = statistics
    bad = [*refused, *(entry for shard in shards for entry in shard["bad"])]
    num_written = sum(shard["num_examples"] for shard in shards)
    return {
        "splits": splits_of_entries(shards),
        "statistics": {name: merged[name].summary() for name in SPLITS if name in merged},
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
        "digest": f"{sum(shard['digest'] for shard in shards) % 2**256:064x}",
    }
