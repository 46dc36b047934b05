"""A sample of TFRecords: the first records of some files, checked as preparing checks them."""

import json
from collections.abc import Sequence
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.existing_records.read import sample_of
from components.prepare_examples.existing_records.record_schema import schema_of
from components.prepare_examples.existing_records.write import RecordOptions, write_part
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.output.manifest import splits_of_entries
from components.prepare_examples.tables.beam_pipeline import finish
from components.prepare_examples.tables.checks import check_label
from components.prepare_examples.tfrecords.shards import SPLITS
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.sample import Sample
from trainer.workloads import Workload

MAX_FILES = 5
MAX_RECORDS = 2_000


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
    how = RecordOptions(
        schema=schema.to_json(),
        ratios=options.ratios,
        num_shards=1,
        compression="",
        given=SPLITS,  # so that all records are in the train split
        max_records=MAX_RECORDS,
    )
    files = [(path, "train") for path in paths[:MAX_FILES]]
    result = finish([write_part(([0], files), options_json=how.to_json(), output_dir=str(folder))])
    tally = result["tally"]
    num_bad = sum(tally["quarantined"].values())
    problems = []
    if num_bad > options.max_quarantine * tally["read"]:
        problems = _problems(folder, tally["quarantined"], tally["read"], places)
    splits = splits_of_entries(result["shards"])
    try:
        if splits["train"]["num_examples"]:
            check_label(
                {"train": result["statistics"]["train"]},
                {},
                schema.label,
                quarantined=tally["quarantined"],
            )
    except DataError as error:
        problems.append(f"{places.of_text(schema.label.name)}{error}")
    return Sample(
        entries=splits["train"]["shards"],
        statistics=result["statistics"]["train"],
        names=[one.name for one in schema.features if one.is_counted],
        detail=f"{tally['read']:,} records of {len(files)} of {len(paths)} files read,"
        f" {num_bad:,} bad",
        problems=problems,
        is_made_up=not splits["train"]["num_examples"],
    )


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
