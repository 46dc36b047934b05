"""The Beam pipeline of class folders: its elements are shards, ranges of a list of files.

The list is a file in the output folder: neither names nor pixels pass through Beam.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.prepare_examples.images.beam_pipeline import merge_entries
from components.prepare_examples.raw_data.files import digests_of
from components.prepare_examples.statistics.duplicates import KeyCounts, merge_keys
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.image_encoder import ImageEncoder
from components.prepare_examples.tfrecords.records import record_file
from components.prepare_examples.tfrecords.shards import SPLITS, Shard
from trainer.json_types import Json
from trainer.workloads.encoding.image_files import decode_image

LISTING = ".files.partial"
BATCH_SIZE = 64


@dataclass(frozen=True)
class FolderOptions:
    """Options of every shard."""

    root: str
    size: tuple[int, int]
    channels: int
    fit: str
    num_classes: int
    compression: str
    num_shards: int

    def to_json(self) -> Json:
        """Return plain values, to pass through Beam."""
        return asdict(self)


@dataclass
class _Images:
    """Decoded images of a shard, and what was found on the way."""

    options: FolderOptions
    bad: list[Json]
    keys: KeyCounts
    digest: int = 0

    def batches(self, lines: Iterable[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield images [n, channels, pixels] and labels [n] of a list of files."""
        images, labels, digests = [], [], []
        for line in lines:
            path, label = json.loads(line)
            with open(os.path.join(self.options.root, path), "rb") as file:  # faster than Path
                data = file.read()
            sha256 = hashlib.sha256(data).hexdigest()
            # A sum does not depend on the order, and so not on the number of shards.
            self.digest += int(hashlib.sha256(f"{path}\0{sha256}".encode()).hexdigest(), 16)
            try:
                pixels = decode_image(
                    data,
                    size=self.options.size,
                    channels=self.options.channels,
                    fit=self.options.fit,
                )
            except ValueError as error:
                self.bad.append(_bad(path, str(error)))
                continue
            images.append(pixels.reshape(-1, self.options.channels).T)
            labels.append(label)
            digests.append(sha256)
            if len(images) == BATCH_SIZE:
                yield self._batch(images, labels, digests)
                images, labels, digests = [], [], []
        if images:
            yield self._batch(images, labels, digests)

    def _batch(
        self, images: list[np.ndarray], labels: list[int], digests: list[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        self.keys.add(pa.array(digests, pa.string()))
        return np.stack(images), np.array(labels, np.int64)


def write_shard(element: tuple[Shard, int], *, options: Json, output_dir: str) -> Json:
    """Write one TFRecord file, in one step; return its entry for the manifest, and the tally.

    Args:
        element: the shard, and the offset of its first line in the list of files.
        options: of FolderOptions.
        output_dir: the folder of the shards, with the list of files.
    """
    described, offset = Shard(*element[0]), element[1]
    chosen = FolderOptions(**{**options, "size": tuple(options["size"])})
    path = Path(output_dir, described.file)
    unfinished = path.with_name(f".{path.name}.partial")
    height, width = chosen.size
    statistics = ImageStatistics(chosen.channels)
    encoder = ImageEncoder(
        num_channels=chosen.channels, num_pixels=height * width, num_classes=chosen.num_classes
    )
    images = _Images(chosen, [], KeyCounts())
    with (
        Path(output_dir, LISTING).open(encoding="utf-8") as listing,
        record_file(unfinished, compression=chosen.compression, strategy=zlib.Z_RLE) as file,
    ):
        listing.seek(offset)
        lines = (listing.readline() for _ in range(described.stop - described.start))
        for batch in images.batches(lines):
            statistics.add(batch)
            file.write(encoder.encode(*batch))
    os.replace(unfinished, path)
    entry = {
        "split": described.split,
        "file": path.name,
        "num_examples": statistics.num_images,
        **file.digests(),
        "statistics": statistics.to_state(),
    }
    return {
        "entry": entry,
        "bad": images.bad,
        "keys": images.keys.to_state(),
        "digest": hex(images.digest),
    }


def finish(results: Iterable[Json], *, output_dir: str, refused: list[tuple[str, str]]) -> Json:
    """Return the splits, their statistics, the quarantine, the duplicates and the digest."""
    found = list(results)
    keys, bad, digest = None, [_bad(path, reason) for path, reason in refused], 0
    for result in found:
        keys = merge_keys(keys, result["keys"])
        bad += result["bad"]
        digest += int(result["digest"], 16)
    merged = merge_entries(result["entry"] for result in found)
    num_bad = len(bad)
    num_written = sum(merged["splits"][split]["num_examples"] for split in SPLITS)
    duplicates = KeyCounts.from_state(keys).summary() if keys else {"num_rows": 0, "is_exact": True}
    return {
        **merged,
        "tally": {
            "read": num_written + num_bad,
            "written": num_written,
            "filtered": 0,
            "quarantined": {"image": num_bad} if num_bad else {},
        },
        "quarantine": _write_quarantine(bad, Path(output_dir)),
        "duplicates": {"column": "image", **duplicates},
        "digest": f"{digest % 2**256:064x}",
    }


def _bad(path: str, reason: str) -> Json:
    return {"file": path, "column": "image", "reason": reason}


def _write_quarantine(bad: list[Json], folder: Path) -> list[Json]:
    if not bad:
        return []
    path = folder / "quarantine-00000-of-00001.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for entry in sorted(bad, key=lambda entry: str(entry["file"])):
            file.write(json.dumps(entry) + "\n")
    return [{"file": path.name, "num_rows": len(bad), **digests_of(path)}]
