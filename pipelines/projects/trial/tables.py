"""A sample of a table: rows from all parts of its files, read as preparing reads them."""

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from components.prepare_examples.declarations import table_fields
from components.prepare_examples.errors import DataError
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.output.manifest import splits_of_entries, statistics_of
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.statistics import anomalies
from components.prepare_examples.statistics.describe import compare_with_schema
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.beam_pipeline import finish
from components.prepare_examples.tables.checks import (
    absent_classes,
    check_binary,
    check_label,
    check_splits,
)
from components.prepare_examples.tables.declared import schema_of
from components.prepare_examples.tables.plan import Part, Segment, segment_of
from components.prepare_examples.tables.reading.files import STREAM, TableFile, open_table, scan
from components.prepare_examples.tables.sampling import with_values_of_label
from components.prepare_examples.tables.table_schema import CLASSES, MULTILABEL, TableSchema
from components.prepare_examples.tables.write import TableOptions, write_part
from pipelines.projects.trial.made_up import write_made_up
from pipelines.projects.trial.places import Places
from pipelines.projects.trial.sample import Sample
from trainer import Json
from trainer.errors import did_you_mean
from trainer.workloads import Binary, Workload

NUM_RANGES = 10
MAX_ROWS = 20_000  # read in a fraction of a second
MAX_SCANNED_BYTES = 200_000_000  # of larger files the first rows are read
NUM_SHOWN = 3


def sample_table(
    workload: Workload, paths: Sequence[str], options: PrepareOptions, folder: Path, places: Places
) -> Sample:
    """Write rows of a table as examples; without good rows, made-up ones.

    Raises:
        DataError: no file can be read, or the declaration contradicts itself.
    """
    schema = schema_of(workload.name, reference=workload.reference, **table_fields(workload))
    files = [open_table(path, header=schema.header) for path in paths]
    by_path = {file.path: file.names for file in files}
    headers = columns.match_headers(by_path, schema, ignored=options.ignore_columns)
    problems = [
        one for path, header in headers.items() for one in _header_problems(path, header, places)
    ]
    if problems:
        return _made_up(schema, folder, problems)
    names = {path: header.columns for path, header in headers.items()}
    max_rows = max(MAX_ROWS // len(files), 1)
    planned = [_segments(file, names[file.path], max_rows) for file in files]
    segments = [one for some, _ in planned for one in some]
    if not segments:
        raise DataError(f"{paths[0]} has a header but no rows")
    common = [name for name in names[paths[0]] if all(name in some for some in names.values())]
    part = Part([0], segments)
    schema = with_values_of_label(schema, [part])
    chosen = TableOptions(
        schema=schema,
        key=columns.check_key(options.split_key, common, schema),
        ratios=options.ratios,
        num_shards=1,
        compression="",
    )
    result = write_part(part.to_json(), options_json=chosen.to_json(), output_dir=str(folder))
    found = finish([result])
    problems = _problems_of_rows(found, folder, options.max_quarantine, places)
    splits = splits_of_entries(found["shards"])
    if not splits["train"]["num_examples"]:
        return _made_up(schema, folder, problems or _too_few(found, splits, chosen.key))
    num_read, num_bad = found["tally"]["read"], sum(found["tally"]["quarantined"].values())
    unlabelled = found["tally"]["unlabelled"]
    totals = [total for _, total in planned]
    is_whole = None not in totals and num_read == sum(filter(None, totals))
    problems += _label_problems(found, splits, chosen, places, is_whole=is_whole)
    if is_whole and not problems:
        problems += _anomalies(found["statistics"], splits, schema, options)
    such_as = f", such as {next(iter(_first_bad_rows(folder).values()))}" if num_bad else ""
    headers = found["tally"]["headers"]
    return Sample(
        entries=splits["train"]["shards"],
        statistics=found["statistics"]["train"],
        names=schema.names,
        detail=f"{'all ' if is_whole else ''}{num_read:,} rows of {_num_files(paths)} read,"
        f" {num_bad:,} bad{such_as}{f', {unlabelled:,} without a label' * bool(unlabelled)}"
        f"{f', {headers:,} repeat the header' * bool(headers)}",
        problems=problems,
        absent=_absent(found["statistics"], schema, workload) if is_whole else {},
        num_test=splits["test"]["num_examples"] if is_whole else None,
    )


def _anomalies(
    statistics: Json, splits: Json, schema: TableSchema, options: PrepareOptions
) -> list[str]:
    """Return the error that preparing raises because of the statistics, if any."""
    content = statistics_of(statistics, splits, workload=schema.workload, names=schema.names)
    try:
        path = local_path(options.schema) if options.schema else None
        anomalies.check(compare_with_schema(content, path)[1], block_on=options.block_on)
    except DataError as error:
        return [str(error)]
    return []


def _absent(statistics: Json, schema: TableSchema, workload: Workload) -> dict[str, list[str]]:
    absent = absent_classes(statistics, schema.label)
    if isinstance(workload.label, Binary):
        names = workload.label.names_of_classes()
        return {split: [names[value] for value in values] for split, values in absent.items()}
    return {split: list(map(str, values)) for split, values in absent.items()}


def _made_up(schema: TableSchema, folder: Path, problems: list[str]) -> Sample:
    label = schema.label
    if label.kind in (CLASSES, MULTILABEL) and not label.values:  # their number is not known
        return Sample(entries=(), statistics={}, names=(), problems=problems, is_made_up=True)
    entry, statistics = write_made_up(schema, folder)
    return Sample(
        entries=[entry],
        statistics=statistics,
        names=schema.names,
        problems=problems,
        is_made_up=True,
    )


def _header_problems(path: str, found: columns.Header, places: Places) -> Iterator[str]:
    for name in found.missing:
        hint = did_you_mean(name, found.unknown or found.columns)
        yield (
            f"{places.of_text(name)}the column {name!r} is not in {path};{hint} it has"
            f" {', '.join(found.columns)}"
        )
    for name in found.twice:
        yield f"{path}: the column {name!r} occurs twice; rename one"
    if found.unknown:
        shown = ", ".join(map(repr, found.unknown))
        yield (
            f"{places.of_call('Table')}{path} has columns that are not declared: {shown};"
            f" declare them as features, or add ignored=[{shown}]"
        )


def _segments(
    file: TableFile, names: Sequence[str], max_rows: int
) -> tuple[list[Segment], int | None]:
    """Return ranges of a file, together about `max_rows` rows, and its number of rows if known."""
    if file.kind == STREAM or (file.num_bytes > MAX_SCANNED_BYTES and not file.has_groups):
        return [segment_of(file, names, (file.data_start, -1), max_rows=max_rows)], None
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
    segments = [
        segment_of(file, names, (start, stop), first_row=first_row, max_rows=min(rows, most))
        for start, stop, first_row, rows in ranges
        if rows
    ]
    return segments, sum(rows for *_, rows in ranges)


def _problems_of_rows(
    found: Json, folder: Path, max_quarantine: float, places: Places
) -> list[str]:
    """Return a problem for each column with many bad values."""
    tally = found["tally"]
    num_read = tally["read"]
    if sum(tally["quarantined"].values()) <= max_quarantine * num_read:
        return []
    ranked = sorted(tally["quarantined"].items(), key=lambda item: -int(item[1]))[:NUM_SHOWN]
    seen = _first_bad_rows(folder)
    return [
        f"{places.of_text(name)}{name or 'number of fields'}: {count:,} of {num_read:,} rows are"
        f" bad, such as {seen[name]}; correct the declaration or the file, or raise max_quarantine"
        for name, count in ranked
        if count
    ]


def _first_bad_rows(folder: Path) -> dict[str, str]:
    """Return the first bad row of each column, in words."""
    seen: dict[str, str] = {}
    for file in sorted(folder.glob("quarantine-*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for entry in map(json.loads, lines):
                text = f"{entry['file']}, row {entry['row']}: {entry['reason']}"
                seen.setdefault(entry["column"], text)
    return seen


def _too_few(found: Json, splits: Json, key: Sequence[str]) -> list[str]:
    try:
        check_splits(splits, key)
    except DataError as error:
        return [str(error)]
    return [f"none of {found['tally']['read']:,} rows can be used"]


def _label_problems(
    found: Json, splits: Json, options: TableOptions, places: Places, *, is_whole: bool
) -> list[str]:
    """Return the mistakes of the label, and of the splits if all rows were read."""
    label, problems = options.schema.label, []
    statistics = found["statistics"] if is_whole else {"train": found["statistics"]["train"]}
    try:
        if is_whole:
            check_splits(splits, options.key)
    except DataError as error:
        problems.append(str(error))
        statistics = {"train": found["statistics"]["train"]}
    try:
        tally = found["tally"]
        check_binary(tally["labels"], label)
        check_label(statistics, tally["labels"], label, quarantined=tally["quarantined"])
    except DataError as error:
        place = places.of_text(label.name) or places.of_call("Binary", "Classes", "Regression")
        problems.append(f"{place}{error}")
    return problems


def _num_files(paths: Sequence[str]) -> str:
    return "1 file" if len(paths) == 1 else f"{len(paths)} files"
