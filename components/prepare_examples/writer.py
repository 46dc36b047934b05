"""The Beam pipeline: shard descriptions in, files and their manifest out.

Its elements describe shards and never hold data: one call reads a range of the raw files and writes
it with TensorFlow's own writer. A pipeline of single examples does a tenth of that, and
`beam.Create` of image data a hundredth (DESIGN.md, fact 17).
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.prepare_examples.beam_options import pipeline_options
from components.prepare_examples.drift import STATISTICS
from components.prepare_examples.encode import encode_images
from components.prepare_examples.files import digests_of
from components.prepare_examples.image_statistics import ImageStatistics
from components.prepare_examples.images import IMAGES
from components.prepare_examples.publish import MANIFEST
from components.prepare_examples.records import record_writer
from components.prepare_examples.shards import ENTRY_FIELDS, SPLITS, Shard
from trainer import quiet

if TYPE_CHECKING:
    from components.prepare_examples.encode import Batch

Json = dict[str, Any]


def write_examples(
    shards: Sequence[Shard],
    *,
    workload: str,
    data_dir: Path,
    output_dir: Path,
    header: Json,
    beam_options: Sequence[str] = (),
) -> None:
    """Runs the pipeline: writes every shard to `output_dir`, and the manifest after the last.

    Args:
        shards: what to write.
        workload: a key of IMAGES.
        data_dir: the raw files, verified.
        output_dir: where to write; it exists.
        header: the manifest's first fields, before `splits`.
        beam_options: Beam's own flags; without `--runner` it all runs in this process.
    """
    import apache_beam as beam

    quiet.import_tensorflow()
    with beam.Pipeline(options=pipeline_options(beam_options)) as pipeline:
        _ = (
            pipeline
            | "Shards" >> beam.Create([tuple(shard) for shard in shards])
            | "SpreadOverWorkers" >> beam.Reshuffle()
            | "WriteShard" >> beam.Map(write_shard, workload, str(data_dir), str(output_dir))
            # One key for all: `combiners.ToList` makes a larger graph, which takes longer to start.
            | "OneKey" >> beam.Map(lambda entry: (None, entry))
            | "Collect" >> beam.GroupByKey()
            | "Entries" >> beam.Values()
            | "WriteManifest" >> beam.Map(write_manifest, header, str(output_dir))
        )


def write_shard(shard: tuple[Any, ...], workload: str, data_dir: str, output_dir: str) -> Json:
    """Writes one TFRecord file, in one step; answers its entry for the manifest."""
    described = Shard(*shard)
    path = Path(output_dir, described.file)
    partial = path.with_name(f".{path.name}.partial")
    compression = "GZIP" if path.suffix == ".gz" else ""
    images = IMAGES[workload]
    statistics = ImageStatistics(images.num_channels)
    batches = images.batches(Path(data_dir), described)
    records = _encoded(batches, statistics)
    num_examples = _write_records(partial, records, compression=compression)
    os.replace(partial, path)
    return {
        "split": described.split,
        "file": path.name,
        "num_examples": num_examples,
        **digests_of(path),
        "statistics": statistics.to_state(),
    }


def _encoded(batches: "Iterable[Batch]", statistics: ImageStatistics) -> Iterator[bytes]:
    for batch in batches:
        statistics.add(batch)
        yield from (row.tobytes() for row in encode_images(*batch))


def _write_records(path: Path, records: Iterable[bytes], *, compression: str) -> int:
    num_examples = 0
    with record_writer(path, compression=compression) as writer:
        for record in records:
            writer.write(record)
            num_examples += 1
    return num_examples


def write_manifest(entries: Iterable[Json], header: Json, output_dir: str) -> None:
    """Writes statistics.json and then manifest.json: the mark of a whole dataset."""
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
    content = {"workload": header["workload"], "splits": summaries}
    Path(output_dir, STATISTICS).write_text(json.dumps(content) + "\n")
    path = Path(output_dir, MANIFEST)
    partial = path.with_name(f".{MANIFEST}.partial")
    partial.write_text(json.dumps({**header, "splits": splits}, indent=2) + "\n")
    os.replace(partial, path)
