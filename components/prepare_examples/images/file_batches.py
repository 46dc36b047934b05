"""Batches of image files: decoded, encoded as examples, compressed and counted.

Processes that decode images import this module (`beam.processes`), so it needs little.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.image_encoder import ImageEncoder
from components.prepare_examples.tfrecords.records import compress_images
from trainer.workloads.encoding.image_files import decode_image

MAX_BATCH = 64
MAX_BATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class FolderOptions:
    """Options of every shard."""

    root: str
    size: tuple[int, int]
    channels: int
    fit: str
    num_classes: int
    compression: str

    @property
    def batch_size(self) -> int:
        """The number of images that are decoded at a time."""
        height, width = self.size
        return min(MAX_BATCH, max(1, MAX_BATCH_BYTES // (height * width * self.channels)))


@dataclass(frozen=True)
class Encoded:
    """The examples of a batch, and what was found in its files."""

    data: bytes
    """Framed examples; compressed, a whole member of a gzip file."""
    statistics: ImageStatistics
    bad: list[tuple[str, str]]
    """Path and reason."""
    digest: int
    """The sum of the digests of all files."""


def encode_files(lines: Sequence[str], *, options: FolderOptions) -> Encoded:
    """Return the examples of some files.

    Args:
        lines: of the list of files, each path and class as JSON.
        options: of every shard.
    """
    images, labels, bad, digest = [], [], [], 0
    for path, label in map(json.loads, lines):
        with open(os.path.join(options.root, path), "rb") as file:  # faster than Path
            data = file.read()
        sha256 = hashlib.sha256(data).hexdigest()
        # A sum does not depend on the order, and so not on the number of shards.
        digest += int(hashlib.sha256(f"{path}\0{sha256}".encode()).hexdigest(), 16)
        try:
            image = decode_image(
                data, size=options.size, channels=options.channels, fit=options.fit
            )
        except ValueError as error:
            bad.append((path, str(error)))
            continue
        images.append(image.reshape(-1, options.channels))
        labels.append(label)
    statistics = ImageStatistics(options.channels)
    encoded = b""
    if images:
        batch = np.stack(images).transpose(0, 2, 1), np.array(labels, np.int64)
        statistics.add(batch)
        rows = _encoder(options).encode(*batch)
        encoded = compress_images(rows) if options.compression else rows.tobytes()
    return Encoded(encoded, statistics, bad, digest)


def _encoder(options: FolderOptions) -> ImageEncoder:
    height, width = options.size
    return ImageEncoder(
        num_channels=options.channels, num_pixels=height * width, num_classes=options.num_classes
    )
