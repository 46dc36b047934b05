"""A few prepared examples of a workload, as a folder that the trainer reads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from components.prepare_examples.output.manifest import statistics_of
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.statistics.drift import STATISTICS
from components.prepare_examples.tfrecords.shards import SPLITS
from trainer import Json


@dataclass(kw_only=True)
class Sample:
    """Examples that were read and written.

    Attributes:
        entries: of the manifest, for the files of the train split.
        statistics: the features of the train split.
        names: the features to keep in the statistics.
        labels: the names of the classes of images.
        detail: what was read, in words.
        problems: the mistakes in the data.
        is_made_up: the examples are not from the data.
        absent: the classes that a split lacks, by split.
        num_test: the examples of the test split, None if not all rows were read.
    """

    entries: Sequence[Json]
    statistics: Json
    names: Sequence[str]
    labels: Sequence[str] = ()
    detail: str = ""
    problems: list[str] = field(default_factory=list)
    is_made_up: bool = False
    absent: Mapping[str, Sequence[str]] = field(default_factory=dict)
    num_test: int | None = None

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return sum(entry["num_examples"] for entry in self.entries)


def write_dataset(sample: Sample, folder: Path, *, workload: str) -> None:
    """Write the manifest and the statistics of a sample, whose examples are in all splits."""
    split = {"num_examples": sample.num_examples, "shards": list(sample.entries)}
    splits = dict.fromkeys(SPLITS, split)
    statistics = {"train": sample.statistics}
    content = statistics_of(statistics, splits, workload=workload, names=sample.names)
    manifest: Json = {"workload": workload, "compression": "", "splits": splits}
    if sample.labels:
        manifest["labels"] = list(sample.labels)
    (folder / STATISTICS).write_text(json.dumps(content))
    (folder / MANIFEST).write_text(json.dumps(manifest))
