"""A trial of preparing TFRecords: those of a run, or of many some of the first."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import schema_of
from components.prepare_examples.existing_records.step import RecordJob, plan
from components.prepare_examples.existing_records.write import (
    RecordOptions,
    RecordPart,
    write_part,
)
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import splits_of_entries
from components.prepare_examples.settings.options import PREVIOUS, PrepareOptions
from components.prepare_examples.tables.checks import check_label
from components.prepare_examples.tables.results import finish
from components.prepare_examples.tfrecords.shards import SPLITS
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.sample import Sample
from trainer.workloads import Workload

MAX_FILES = 5
MAX_RECORDS = 2_000
MAX_BYTES = 5_000_000  # of files that are read whole


def sample_records(
    workload: Workload, paths: Sequence[str], options: PrepareOptions, folder: Path, places: Places
) -> Sample:
    """Write the first records of some files as examples.

    Raises:
        DataError: a file is damaged, or the records lack the label.
    """
    first = sample_of(list(map(Path, paths)))
    schema = schema_of(workload, first)
    absent = [one.name for one in schema.features if one.is_required and one.name not in first]
    if absent:
        has = ", ".join(sorted(first))
        problems = [
            f"{places.of_text(name)}the records of {paths[0]} have no feature {name!r}; they have"
            f" {has}"
            for name in absent
        ]
        return Sample(entries=(), statistics={}, names=(), problems=problems, is_made_up=True)
    job = _whole_job(workload, paths, options)
    files = [(path, "train") for path in paths[:MAX_FILES]]
    how = RecordOptions(
        schema=schema,
        ratios=options.ratios,
        num_shards=1,
        compression="",
        given=SPLITS,  # so that all records are in the train split
        max_records=MAX_RECORDS,
    )
    parts, how = (job.parts, job.options) if job else ([RecordPart([0], files)], how)
    written = (write_part(part, options=how, output_dir=str(folder)) for part in parts)
    result = finish(written)
    tally = result["tally"]
    num_bad = sum(tally["quarantined"].values())
    splits = splits_of_entries(result["shards"])
    problems = []
    if quarantine.is_above(result, options.max_quarantine):
        problems = _problems(folder, tally["quarantined"], tally["read"], places)
    elif splits["train"]["num_examples"] or job:
        try:
            if job:
                job.conclude(result, folder)
            else:
                train = {"train": result["statistics"]["train"]}
                check_label(train, {}, schema.label, quarantined=tally["quarantined"])
        except DataError as error:
            problems = [f"{places.of_text(schema.label.name)}{error}"]
    return Sample(
        entries=splits["train"]["shards"],
        statistics=result["statistics"]["train"],
        names=[one.name for one in schema.features if one.is_counted],
        detail=f"{'all ' if job else ''}{tally['read']:,} records of {len(files)} of"
        f" {len(paths)} files read, {num_bad:,} bad",
        problems=problems,
        is_made_up=not splits["train"]["num_examples"],
    )


def _whole_job(
    workload: Workload, paths: Sequence[str], options: PrepareOptions
) -> RecordJob | None:
    """Return the run's own job for few records, which are prepared as it prepares them."""
    if len(paths) > MAX_FILES or sum(Path(path).stat().st_size for path in paths) > MAX_BYTES:
        return None
    changed: dict[str, Any] = {
        "files": tuple(paths),
        "num_shards": {"train": 1},
        "compression": "none",
    }
    baseline = "" if options.baseline == PREVIOUS else options.baseline
    return plan(workload, Path(), replace(options, **changed, baseline=baseline))


def _problems(folder: Path, counts: dict[str, int], num_read: int, places: Places) -> list[str]:
    seen: dict[str, str] = {}
    for file in sorted(folder.glob("quarantine-*.jsonl")):
        for entry in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            text = f"{entry['file']}, record {entry['row']}: {entry['reason']}"
            seen.setdefault(entry["column"], text)
    return [
        f"{places.of_text(name)}{name or 'records'}: {count:,} of {num_read:,} records are bad,"
        f" such as {seen[name]}; correct the declaration or the files, or raise max_quarantine"
        for name, count in sorted(counts.items(), key=lambda item: -item[1])[:3]
    ]
