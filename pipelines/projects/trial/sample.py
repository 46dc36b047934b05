"""A few prepared examples of a workload, as a folder that the trainer reads."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import statistics_of
from components.prepare_examples.output.publish import MANIFEST
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.statistics.drift import STATISTICS
from components.prepare_examples.tables.reading.encodings import explained
from components.prepare_examples.tfrecords.shards import SPLITS
from pipelines.projects.trial.places import Places
from trainer import Json

NUM_SHOWN = 3
UNNAMED = {"row": "number of fields", "record": "records"}


@dataclass(kw_only=True)
class Sample:
    """Examples that were read and written; none if no row or file can be used.

    `entries` of the manifest and `statistics` are the train split's, `labels` the classes of
    images, `absent` the classes that a split lacks, `splits` all entries, or {} if not all rows
    were read.
    """

    entries: Sequence[Json] = ()
    statistics: Json = field(default_factory=dict)
    names: Sequence[str] = ()
    labels: Sequence[str] = ()
    detail: str = ""
    problems: list[str] = field(default_factory=list)
    absent: Mapping[str, Sequence[str]] = field(default_factory=dict)
    splits: Json = field(default_factory=dict)

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


def bad_rows(folder: Path, tally: Json, places: Places, *, what: str = "row") -> list[str]:
    """Return a problem for each of the columns with most quarantined rows or records."""
    seen = first_bad_rows(folder, what=what)
    return [
        f"{places.of_text(name)}{name or UNNAMED[what]}: {count:,} of {tally['read']:,}"
        f" {what}s are bad, such as {seen[name]}; correct the declaration or the files, or raise"
        " max_quarantine"
        for name, count in quarantine.ranked(tally["quarantined"])[:NUM_SHOWN]
    ]


def first_bad_rows(folder: Path, *, what: str = "row") -> dict[str, str]:
    """Return the first bad row or record of each column, in words."""
    seen: dict[str, str] = {}
    for file in sorted(folder.glob("quarantine-*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for entry in map(json.loads, lines):
                if entry["column"] not in seen:
                    reason = explained(entry)
                    seen[entry["column"]] = f"{entry['file']}, {what} {entry['row']}: {reason}"
    return seen


def problem_of(check: Callable[[], None], position: str = "") -> list[str]:
    """Return the error of a check of a run, with its position; nothing if it passes."""
    try:
        check()
    except DataError as error:
        return [f"{position}{error}"]
    return []


def without_service(options: PrepareOptions) -> PrepareOptions:
    """Return the options of one file for each split, without what only a service has."""
    baseline = "" if options.baseline == PREVIOUS else options.baseline
    options = replace(options, num_shards={"train": 1}, compression="none", baseline=baseline)
    if options.source != "bigquery":
        return options
    return replace(options, source="files", project="", limit=0, dates=(), window="")
