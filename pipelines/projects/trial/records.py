"""A trial of preparing TFRecords: all records of a run, or the first of many."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import schema_of
from components.prepare_examples.existing_records.step import plan
from components.prepare_examples.existing_records.write import (
    write_part,
)
from components.prepare_examples.parts import finish
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.sample import Sample, bad_rows, problem_of, without_service
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
    absent = [
        feature.name
        for feature in schema.features
        if feature.is_required and feature.name not in first
    ]
    if absent:
        has = ", ".join(sorted(first))
        problems = [
            f"{places.of_text(name)}the records of {paths[0]} have no feature {name!r}; they have"
            f" {has}"
            for name in absent
        ]
        return Sample(problems=problems)
    chosen = paths[:MAX_FILES]
    is_whole = len(paths) == len(chosen) and sum(map(_size, paths)) <= MAX_BYTES
    most = options.max_examples if is_whole else MAX_RECORDS
    sampled = replace(without_service(options), files=tuple(chosen), max_examples=most)
    if not is_whole:  # some records need not fill the windows, nor have each value
        sampled = replace(sampled, split={"by": "hash"})
    job = plan(workload, Path(), sampled)
    written = (write_part(part, options=job.options, output_dir=str(folder)) for part in job.parts)
    result = finish(written)
    if not is_whole:
        result["statistics"] = {"train": result["statistics"]["train"]}
    outcome = job.outcome(result, folder)
    train = outcome.splits["train"]
    position = places.of_text(schema.label.name)
    problems = []
    if outcome.is_above_share:
        problems = bad_rows(folder, result["tally"], places, what="record")
    elif is_whole:
        problems = problem_of(lambda: job.conclude(outcome), position)
    elif train["num_examples"]:
        problems = problem_of(outcome.check_label, position)
    return Sample(
        entries=train["shards"],
        statistics=result["statistics"]["train"],
        names=schema.names,
        detail=f"{'all ' if is_whole else ''}{outcome.rows['read']:,} records of {len(chosen)} of"
        f" {len(paths)} files read, {outcome.num_bad:,} bad",
        problems=problems,
        splits=outcome.splits if is_whole else {},
    )


def _size(path: str) -> int:
    return Path(path).stat().st_size
