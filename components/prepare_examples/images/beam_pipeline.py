"""The Beam pipeline of images: its elements are shards, its result their manifest entries.

Elements describe shards and hold no data: one call reads a range of the raw files, encodes it and
writes it. A pipeline of single examples has a tenth of the throughput, and `beam.Create` of image
data a hundredth (DESIGN.md, fact 17).
"""

import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError
from components.prepare_examples.images.formats import batches_of, num_channels, row_bytes
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.statistics.drift import STATISTICS
from components.prepare_examples.statistics.image_schema import image_facets, image_schema
from components.prepare_examples.statistics.images import ImageStatistics
from components.prepare_examples.statistics.schema import write_schema
from components.prepare_examples.tfrecords.image_encoder import ImageEncoder
from components.prepare_examples.tfrecords.records import compress_images, record_file
from components.prepare_examples.tfrecords.shards import ENTRY_FIELDS, SPLITS, Shard
from trainer import Json
from trainer.workloads.declarations.sources import ImageFormat


def write_examples(
    shards: Sequence[Shard],
    *,
    kind: ImageFormat,
    data_dir: Path,
    output_dir: Path,
    beam_options: Sequence[str] = (),
) -> Json:
    """Run the pipeline, which writes all shards; return the `splits` and their `statistics`.

    Args:
        shards: the files to write.
        kind: the format of the raw files.
        data_dir: the raw files, verified.
        output_dir: an existing folder.
        beam_options: Beam's flags; without `--runner` the pipeline runs in this process.
    """
    return run_pipeline(
        [tuple(shard) for shard in shards],
        partial(write_shard, kind=kind, data_dir=str(data_dir), output_dir=str(output_dir)),
        merge_entries,
        folder=output_dir,
        flags=beam_options,
    )


def write_shard(
    shard: tuple[Any, ...], *, kind: ImageFormat, data_dir: str, output_dir: str
) -> Json:
    """Write one TFRecord file, in one step; return its entry for the manifest."""
    described = Shard(*shard)
    path = Path(output_dir, described.file)
    unfinished = path.with_name(f".{path.name}.partial")
    is_compressed = path.suffix == ".gz"
    channels = num_channels(kind)
    statistics = ImageStatistics(channels)
    encoder = ImageEncoder(num_channels=channels, num_pixels=row_bytes(kind) // channels)
    with record_file(unfinished, compression="") as file:  # batches are compressed
        for batch in batches_of(kind, Path(data_dir), described):
            statistics.add(batch)
            rows = encoder.encode(*batch)
            file.write(compress_images(rows) if is_compressed else rows)
    _check_count(described, statistics.num_images)
    os.replace(unfinished, path)
    return {
        "split": described.split,
        "file": path.name,
        "num_examples": statistics.num_images,
        **file.digests(),
        "statistics": statistics.to_state(),
    }


def merge_entries(entries: Iterable[Json]) -> Json:
    """Return the manifest's `splits`, and the splits of statistics.json."""
    splits: Json = {split: {"num_examples": 0, "shards": []} for split in SPLITS}
    found: dict[str, ImageStatistics] = {}
    for entry in sorted(entries, key=lambda entry: str(entry["file"])):
        name, split = entry["split"], splits[entry["split"]]
        split["num_examples"] += entry["num_examples"]
        split["shards"].append({key: entry[key] for key in ENTRY_FIELDS})
        statistics = ImageStatistics.from_state(entry["statistics"])
        if name in found:
            found[name].merge(statistics)
        else:
            found[name] = statistics
    summaries = {name: found[name].summary() for name in SPLITS if name in found}
    return {"splits": splits, "statistics": summaries}


def write_manifest(result: Json, *, header: Json, folder: Path, num_bytes: int) -> None:
    """Write statistics, schema and then the manifest, which marks a complete dataset.

    Args:
        result: of `write_examples`.
        header: the manifest's first fields.
        folder: of the shards.
        num_bytes: of an image.
    """
    statistics = {"workload": header["workload"], "splits": result["statistics"]}
    (folder / STATISTICS).write_text(json.dumps(statistics) + "\n")
    facets = image_facets(statistics, num_bytes=num_bytes)
    (folder / "statistics.pb").write_bytes(facets.SerializeToString(deterministic=True))
    write_schema(image_schema(statistics), folder / "schema.pbtxt")
    schema_sha256 = sha256_of(folder / "schema.pbtxt")
    manifest = {**header, "splits": result["splits"], "schema_sha256": schema_sha256}
    unfinished = folder / f".{MANIFEST}.partial"
    unfinished.write_text(json.dumps(manifest, indent=2) + "\n")
    os.replace(unfinished, folder / MANIFEST)


def _check_count(shard: Shard, num_images: int) -> None:
    if num_images != shard.stop - shard.start:
        raise DataError(
            f"{shard.stop - shard.start:,} images were planned for {shard.file}, but {num_images:,}"
            " read: a raw file has changed; run again when no program writes to it"
        )
