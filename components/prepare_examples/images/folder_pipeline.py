"""The Beam pipeline of class folders: its elements are shards, ranges of a list of files.

The list is a file in the output folder: neither names nor pixels pass through Beam.
"""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from components.prepare_examples.images.beam_pipeline import merge_entries, shard_entry
from components.prepare_examples.images.file_batches import FolderOptions, encode_files
from components.prepare_examples.output.quarantine import write_side_file
from components.prepare_examples.raw_data.progress import Progress
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.tfrecords.records import record_file
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
    statistics, bad, digest = ImageStatistics(options.channels), list[Json](), 0
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
            statistics.merge(batch.statistics)
            bad += [_bad(path, reason) for path, reason in batch.bad]
            digest += batch.digest
            progress.show(statistics.num_images + len(bad))
    os.replace(unfinished, path)
    return {"entry": shard_entry(shard, statistics, file), "bad": bad, "digest": digest}


def finish(results: Iterable[Json], *, output_dir: str, refused: list[tuple[str, str]]) -> Json:
    """Return the splits, their statistics, the quarantine and the digest."""
    shards = list(results)
    bad, digest = [_bad(path, reason) for path, reason in refused], 0
    for result in shards:
        bad += result["bad"]
        digest += result["digest"]
    merged = merge_entries(result["entry"] for result in shards)
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
        "quarantine": write_side_file(
            Path(output_dir, "quarantine-00000-of-00001.jsonl"),
            sorted(bad, key=lambda entry: str(entry["file"])),
        ),
        "digest": f"{digest % 2**256:064x}",
    }


def _bad(path: str, reason: str) -> Json:
    return {"file": path, "column": "image", "reason": reason}
