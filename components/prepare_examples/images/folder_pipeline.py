"""The Beam pipeline of class folders: its elements are shards, ranges of a list of files.

The list is a file in the output folder: neither names nor pixels pass through Beam.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from components.prepare_examples.images.beam_pipeline import merge_entries
from components.prepare_examples.images.file_batches import Encoded, FolderOptions, encode_files
from components.prepare_examples.raw_data.files import digests_of
from components.prepare_examples.raw_data.progress import Progress
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.records import RecordFile, record_file
from components.prepare_examples.tfrecords.shards import SPLITS, Shard
from trainer import Json

LISTING = ".files.partial"


def write_shard(element: tuple[Shard, int], *, options: FolderOptions, output_dir: str) -> Json:
    """Write one TFRecord file, in one step; return its entry for the manifest, and the tally.

    Args:
        element: the shard, and the offset of its first line in the list of files.
        options: of every shard.
        output_dir: the folder of the shards, with the list of files.
    """
    shard, offset = element
    path = Path(output_dir, shard.file)
    unfinished = path.with_name(f".{path.name}.partial")
    found = _Found(ImageStatistics(options.channels))
    progress = Progress(shard.file, "images", shard.stop - shard.start)
    with (
        Path(output_dir, LISTING).open(encoding="utf-8") as listing,
        record_file(unfinished, compression="") as file,  # batches are compressed
    ):
        listing.seek(offset)
        lines = (listing.readline() for _ in range(shard.stop - shard.start))
        while some := list(islice(lines, options.batch_size)):
            batch = encode_files(some, options=options)
            file.write(batch.data)
            found.add(batch)
            progress.show(found.num_files)
    os.replace(unfinished, path)
    return found.result(shard, file)


@dataclass
class _Found:
    """What was found in the files of a shard."""

    statistics: ImageStatistics
    bad: list[tuple[str, str]] = field(default_factory=list)
    digest: int = 0

    @property
    def num_files(self) -> int:
        """The number of files so far."""
        return self.statistics.num_images + len(self.bad)

    def add(self, batch: Encoded) -> None:
        self.statistics.merge(batch.statistics)
        self.bad += batch.bad
        self.digest += batch.digest

    def result(self, shard: Shard, file: RecordFile) -> Json:
        entry = {
            "split": shard.split,
            "file": shard.file,
            "num_examples": self.statistics.num_images,
            **file.digests(),
            "statistics": self.statistics,
        }
        return {
            "entry": entry,
            "bad": [_bad(path, reason) for path, reason in self.bad],
            "digest": self.digest,
        }


def finish(results: Iterable[Json], *, output_dir: str, refused: list[tuple[str, str]]) -> Json:
    """Return the splits, their statistics, the quarantine and the digest."""
    found = list(results)
    bad, digest = [_bad(path, reason) for path, reason in refused], 0
    for result in found:
        bad += result["bad"]
        digest += result["digest"]
    merged = merge_entries(result["entry"] for result in found)
    num_bad = len(bad)
    num_written = sum(merged["splits"][split]["num_examples"] for split in SPLITS)
    return {
        **merged,
        "tally": {
            "read": num_written + num_bad,
            "written": num_written,
            "filtered": 0,
            "quarantined": {"image": num_bad} if num_bad else {},
        },
        "quarantine": _write_quarantine(bad, Path(output_dir)),
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
