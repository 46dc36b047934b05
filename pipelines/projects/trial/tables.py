"""A trial of preparing a table: the rows that a run prepares, or of many rows some of all parts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.evaluate.gate.telling import Floats
from components.prepare_examples.parts import Part, Tally, finish
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.job import TableJob, TableOutcome
from components.prepare_examples.tables.plan import Segment, TablePlan
from components.prepare_examples.tables.reading.files import STREAM, TableFile, scan
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.step import OpenedTable, make_job, open_files
from components.prepare_examples.tables.write import usable_rows, write_part
from components.shared.text.value_text import first_of
from pipelines.projects.leaks import AFTER, codes_of, find_leaks
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.sample import (
    NUM_SHOWN,
    Sample,
    bad_rows,
    first_bad_rows,
    problem_of,
    without_service,
)
from trainer.errors import did_you_mean
from trainer.workloads import (
    Binary,
    Category,
    Image,
    Multilabel,
    Regression,
    Split,
    Workload,
)

NUM_RANGES = 10
MAX_ROWS = 20_000  # read in a fraction of a second
MAX_PICTURES = 500  # decoded in a few seconds
MAX_SCANNED_BYTES = 200_000_000  # of larger files the first rows are read


def sample_table(
    workload: Workload, data_dir: Path, options: PrepareOptions, folder: Path, places: Places
) -> Sample:
    """Write rows of a table as a run writes them.

    Raises:
        DataError: no file can be read, or the declaration contradicts itself.
    """
    options = without_service(options)
    opened = open_files(workload, data_dir, options)
    problems = [
        problem
        for path, header in opened.headers.items()
        for problem in _header_problems(path, header, places)
    ]
    if problems:
        return Sample(problems=problems)
    table, is_whole = _plan(opened, options)
    outcome = _written(opened, table, options, folder, is_whole=is_whole)
    problems = _problems(outcome, places, is_whole=is_whole)
    if problems and not is_whole and not opened.pictures and _can_be_scanned(opened):
        # Perhaps the others are right: bad ones, or those of a class, may lie side by side.
        table, is_whole = opened.planned(options, max_rows=options.max_examples), True
        outcome = _written(opened, table, options, folder, is_whole=True)
        problems = _problems(outcome, places, is_whole=True)
    job, result = outcome.job, outcome.result
    if not outcome.splits["train"]["num_examples"]:
        return Sample(problems=problems or ["no row can be used"])
    return Sample(
        entries=outcome.splits["train"]["shards"],
        statistics=result["statistics"]["train"],
        names=job.options.schema.names,
        detail="; ".join(
            [
                _detail(outcome, len(opened.files), is_whole=is_whole),
                *([] if opened.pictures else _leaks(job)),
            ]
        ),
        problems=problems,
        absent=_absent(outcome, workload) if is_whole else {},
        splits=outcome.splits if is_whole else {},
    )


def _written(
    opened: OpenedTable, table: TablePlan, options: PrepareOptions, folder: Path, *, is_whole: bool
) -> TableOutcome:
    if not is_whole:  # some rows need not fill the windows, nor have each value
        opened = replace(opened, split=Split())
    job = make_job(opened, table, options)
    parts = [write_part(part, options=job.options, output_dir=str(folder)) for part in table.parts]
    result = finish(parts)
    if not is_whole:
        result["statistics"] = {"train": result["statistics"]["train"]}
    return job.outcome(result, folder)


def _can_be_scanned(opened: OpenedTable) -> bool:
    return sum(file.num_bytes for file in opened.files) <= MAX_SCANNED_BYTES


def _plan(opened: OpenedTable, options: PrepareOptions) -> tuple[TablePlan, bool]:
    """Return the plan of the run's rows and True, or of some of them and False if they are many."""
    most = MAX_PICTURES if opened.pictures else MAX_ROWS
    if _can_be_scanned(opened):
        table = opened.planned(options, max_rows=min(options.max_examples or most + 1, most + 1))
        if (table.num_rows or 0) <= most:
            return table, True
    max_rows = max(most // len(opened.files), 1)
    segments = [
        segment
        for file in opened.files
        for segment in _segments(file, opened.headers[file.path].columns, max_rows)
    ]
    return TablePlan((Part([0], segments),), {}, None), False


def _leaks(job: TableJob) -> list[str]:
    schema = job.options.schema
    if isinstance(schema.label, Multilabel):
        return []
    read = (block for _, block in blocks(job.table.parts[0].inputs[0], schema))
    rows = pa.concat_tables(
        usable_rows(block, schema, job.options.period, Tally()) for block in read
    )
    columns: dict[str, tuple[pa.Array, Floats]] = {}
    for column in schema.stored:
        values = rows[column.name].combine_chunks()
        if not column.is_list and not isinstance(column, Image):
            is_flag = isinstance(column, Category) and len(values.unique()) == 2  # noqa: PLR2004
            numbers = codes_of(values) if is_flag else _floats(values)
            columns.setdefault(getattr(column, "of", column.name), (values, numbers))
    has_classes = not isinstance(schema.label, Regression)
    name = schema.label.name
    label = rows[name].combine_chunks()
    target = codes_of(label) if has_classes else _floats(label)
    leaks = find_leaks(columns, target, has_classes=has_classes)
    told = [f"{own} tells {name} {words}" for own, words in leaks.items()]
    return [f"{first_of(told, NUM_SHOWN)}: {AFTER}"] if told else []


def _floats(values: pa.Array) -> Floats:
    if not pa.types.is_floating(values.type) and not pa.types.is_integer(values.type):
        return np.full(len(values), math.nan)
    floats: Floats = values.cast(pa.float64()).fill_null(math.nan).to_numpy(zero_copy_only=False)
    return floats


def _problems(outcome: TableOutcome, places: Places, *, is_whole: bool) -> list[str]:
    """Return what a run refuses; of some rows, only what more rows would not change."""
    tally = outcome.result["tally"]
    problems = bad_rows(outcome.folder, tally, places) if outcome.is_above_share else []
    if is_whole and not problems:
        problems = problem_of(outcome.check_rows) or problem_of(outcome.check_splits)
    if outcome.splits["train"]["num_examples"]:
        label = outcome.job.options.schema.label.name
        position = places.of_text(label) or places.of_call("Binary", "Classes", "Regression")
        problems += problem_of(outcome.check_values, position)
        problems += problem_of(outcome.check_label, position)
    return problems or (problem_of(outcome.describe_table) if is_whole else [])


def _absent(outcome: TableOutcome, workload: Workload) -> dict[str, list[str]]:
    absent = outcome.absent_classes()
    if isinstance(workload.label, Binary):
        names = workload.label.names_of_classes()
        return {split: [names[value] for value in values] for split, values in absent.items()}
    return {split: list(map(str, values)) for split, values in absent.items()}


def _header_problems(path: str, header: columns.Header, places: Places) -> Iterator[str]:
    for name in header.missing:
        hint = did_you_mean(name, header.unknown or header.columns)
        yield (
            f"{places.of_text(name)}the column {name!r} is not in {path};{hint} it has"
            f" {', '.join(header.columns)}"
        )
    for name in header.twice:
        yield f"{path}: the column {name!r} occurs twice; rename one"
    if header.unknown:
        shown = ", ".join(map(repr, header.unknown))
        yield (
            f"{places.of_call('Table')}{path} has columns that are not declared: {shown};"
            f" declare them as features, or add ignored=[{shown}]"
        )


def _segments(file: TableFile, names: Sequence[str], max_rows: int) -> list[Segment]:
    if file.kind == STREAM or (file.num_bytes > MAX_SCANNED_BYTES and not file.has_groups):
        return [Segment(file, names, file.data_start, -1, max_rows=max_rows)]
    if file.has_groups:
        starts = [0, *accumulate(file.group_rows)]
        ranges = [(at, at + 1, starts[at], rows) for at, rows in enumerate(file.group_rows)]
    else:
        step = -(-(file.num_bytes - file.data_start) // NUM_RANGES)
        cuts = scan(file, [file.data_start + step * at for at in range(1, NUM_RANGES)]).cuts
        ranges = [
            (cut.offset, after.offset, cut.num_rows, after.num_rows - cut.num_rows)
            for cut, after in pairwise(cuts)
        ]
    most = -(-max_rows // max(len(ranges), 1))
    return [
        Segment(file, names, start, stop, first_row, min(rows, most))
        for start, stop, first_row, rows in ranges
        if rows
    ]


def _detail(outcome: TableOutcome, num_files: int, *, is_whole: bool) -> str:
    rows = outcome.rows
    more = {
        "unlabelled": "without a label",
        "repeated_headers": "repeat the header",
        "repeated_pictures": "repeat another one",
        "filtered": "filtered",
    }
    counts = [
        f"{'all ' if is_whole else ''}{rows['read']:,} rows of"
        f" {num_files} file{'s' if num_files > 1 else ''} read",
        f"{outcome.num_bad:,} bad",
        *(f"such as {bad}" for bad in [*first_bad_rows(outcome.folder).values()][:1]),
        *(f"{rows[name]:,} {words}" for name, words in more.items() if rows.get(name)),
    ]
    pictures = outcome.job.pictures
    return "; ".join([", ".join(counts), *(pictures.words() if pictures else ())])
