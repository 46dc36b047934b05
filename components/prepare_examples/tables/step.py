"""Preparation of tables: files are split at the ends of records, and rows into splits by key."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError, Refuse, Write
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import source_entry
from components.prepare_examples.output.publish import UNUSED, local_path
from components.prepare_examples.parts import finish
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import cached_digests
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import rule_of, split_of
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.outcome import Outcome, ranked_values
from components.prepare_examples.tables.picture_rows import PictureRows, match_rows
from components.prepare_examples.tables.pictures import Pictures, find_table_files
from components.prepare_examples.tables.plan import plan_table
from components.prepare_examples.tables.reading.bigquery import fetch_rows, query_of
from components.prepare_examples.tables.reading.files import TableFile, open_table
from components.prepare_examples.tables.sampling import with_values_of_label, with_windows
from components.prepare_examples.tables.table_schema import TableSchema, schema_of
from components.prepare_examples.tables.write import RowOptions, period_of, write_part
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer import Json
from trainer.workloads.base import Workload
from trainer.workloads.declarations.labels import Binary
from trainer.workloads.declarations.split import FILES, HASH, Split, is_window

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FoundFiles:
    """The files of a table, with the columns of each, and where they come from."""

    files: Sequence[TableFile]
    is_verified: bool = False
    pictures: Pictures | None = None
    query: str | None = None


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> Write:
    """Find the files, or fetch the sample; check the headers and plan the parts."""
    schema, split = _schema(workload, options)
    period = period_of(schema, options)
    source = _open_files(workload, schema, data_dir, options)
    files, rows = source.files, PictureRows()
    if source.pictures:
        rows = match_rows(files, schema, source.pictures)
    num_bytes = sum(file.weight for file in files)
    num_bytes += rows.num_rows * sum(column.num_pixels for column in schema.images)
    num_shards = options.planned_shards(num_bytes)
    table = plan_table(files, num_shards=num_shards, max_rows=options.max_examples)
    if table.num_rows == 0:
        raise DataError(f"{files[0].path} has a header but no rows")
    digests = cached_digests((Path(file.path) for file in table.files), folder=data_dir)
    common = [name for name in files[0].columns if all(name in file.columns for file in files)]
    groups = schema.group_by if schema.split_by else ()
    key = columns.check_key(options.split_key or groups, common, schema)
    schema = with_values_of_label(schema, table.parts)
    rule = rule_of(split, options, hashed=" and ".join(key), paths=[file.path for file in files])
    if time := next((time for time in schema.times if time.name == rule.column), None):
        rule = replace(rule, zone=time.time_zone, groups=groups)
        rule = with_windows(rule, schema, table.parts, period=period)
    chosen = RowOptions(
        schema=schema,
        key=key,
        rule=rule,
        num_shards=num_shards,
        compression=COMPRESSIONS[options.compression],
        period=period,
        patterns=tuple(_patterns(options)),
        left_out=rows.reasons,
    )

    def write(folder: Path, refuse: Refuse) -> None:
        result = run_pipeline(
            table.parts,
            partial(write_part, options=chosen, output_dir=str(folder)),
            finish,
            folder=folder,
            flags=options.beam_options,
        )
        outcome = Outcome(
            options=chosen, settings=options, result=result, folder=folder, refuse=refuse
        )
        _check_values(outcome)
        outcome.check_share()
        _check_rows(outcome, chosen, planned=table.num_rows)
        outcome.check_splits()
        outcome.check_label()
        _warn(outcome)
        outcome.describe(
            sources=[
                source_entry(path.name, sha256, is_verified=source.is_verified)
                for path, (_, sha256) in digests.items()
            ],
            split_columns=_hashed_columns(files, chosen),
            query=source.query,
            unused=_unused(outcome, rows),
            times=_times(result["tally"], schema),
        )

    return write


def _open_files(
    workload: Workload, schema: TableSchema, data_dir: Path, options: PrepareOptions
) -> FoundFiles:
    """Find the files, or fetch the sample, and read their headers."""
    query, pictures, is_verified = None, None, False
    if schema.images and not options.files:
        raise DataError(
            f"{workload.name} has pictures, but no files are given; give the table and the folder"
            " of its pictures, as files: [labels.csv, photos]"
        )
    if options.source == "bigquery":
        query = query_of(workload, schema, options)
        rows = fetch_rows(workload, data_dir, project=options.project, query=query)
        paths = [str(rows)]
    elif options.files:
        matches = find_table_files(_patterns(options), has_pictures=bool(schema.images))
        paths, pictures = [*matches.tables], matches.pictures
    else:
        fetched = fetch(workload.reference, data_dir, trust_files=options.trust_files)
        paths, is_verified = [*map(str, fetched.values())], not options.trust_files
    files = [open_table(path, header=schema.header) for path in paths]
    files = columns.match_files(files, schema, ignored=options.ignore_columns)
    return FoundFiles(files=files, is_verified=is_verified, pictures=pictures, query=query)


def _hashed_columns(files: Sequence[TableFile], options: RowOptions) -> list[str] | None:
    """Return the columns whose values decide the split, if all values of a row do."""
    if options.key != (columns.WHOLE_ROW,) or not options.rule.is_hashed:
        return None
    return sorted({name for file in files for name in columns.hashed_names(file.names).values()})


def _check_values(outcome: Outcome) -> None:
    """Check that a binary label has two values.

    Rows whose value occurs once besides two others are only quarantined.
    """
    schema, values = outcome.options.schema, outcome.result["tally"]["labels"]
    if not isinstance(schema.label, Binary) or schema.label.is_one_against_rest:
        return
    counted = [v for v, count in values.items() if count > 1 or schema.negative is None]
    if len(counted) > 2:  # noqa: PLR2004
        outcome.refuse(
            DataError(
                f"{schema.label.name} has {len(values)} values, and a Binary label two:"
                f" {ranked_values(values)}; correct the files, declare Classes, or say that all"
                " others are negative with is_one_against_rest=True",
                about=schema.label.name,
            )
        )


def _check_rows(outcome: Outcome, options: RowOptions, *, planned: int | None) -> None:
    """Check that all planned rows were read, and that examples were written."""
    rows = outcome.rows
    if planned not in {None, rows["read"]}:
        raise DataError(
            f"{planned:,} rows were planned, but {rows['read']:,} read: a file has changed; run"
            " again when no program writes to it"
        )
    if rows["read"] != sum(rows.values()) - rows["read"]:
        raise AssertionError(f"the numbers of rows do not add up: {rows}")
    if rows["written"] == 0:
        raise DataError(_no_rows_message(outcome.result["tally"], rows, options))


def _unused(outcome: Outcome, pictures: PictureRows) -> Json | None:
    """Write the names of the files that no row uses; return the manifest's entry."""
    is_limited = 0 < outcome.settings.max_examples <= outcome.rows["read"]
    if is_limited or not pictures.unused:
        return None
    files = [
        {"file": path, "reason": reason}
        for reason, paths in pictures.unused.items()
        for path in paths
    ]
    (outcome.folder / UNUSED).write_bytes(quarantine.json_lines(files))
    return {"num_files": len(files), "file": UNUSED, "notes": list(pictures.words())}


def _warn(outcome: Outcome) -> None:
    """Log how many rows are left out and why, and which split lacks a class."""
    rows, label = outcome.rows, outcome.options.schema.label
    if outcome.num_bad:
        entry = quarantine.manifest_entry(outcome.result)
        worst = quarantine.worst_columns(entry, outcome.folder)
        logger.warning("%d of %d rows were quarantined: %s", outcome.num_bad, rows["read"], worst)
    if count := rows.get("repeated_headers"):
        logger.warning("%d rows repeat the header of their file and are left out", count)
    if count := rows.get("unlabelled"):
        logger.warning("%d of %d rows have no %s and are left out", count, rows["read"], label.name)
    for split, classes in outcome.absent_classes().items():
        shown = ", ".join(map(str, classes))
        logger.warning("no row of the %s split has the %s %s", split, label.name, shown)


def _no_rows_message(tally: Json, rows: Json, options: RowOptions) -> str:
    schema = options.schema
    if options.period and rows["filtered"]:
        return (
            f"0 of {rows['read']:,} rows have a {options.period}; use other dates, or a longer"
            " window"
        )
    if not rows["read"]:
        return "the files have headers but no rows"
    if "unlabelled" in rows:
        return (
            f"no row is left of {rows['read']:,}: {rows['unlabelled']:,} have no"
            f" {schema.label.name} and {rows['quarantined']:,} are bad; correct the files, or"
            " declare another label"
        )
    return f"all {rows['read']:,} rows are bad: {quarantine.by_column(tally['quarantined'])}"


def _times(tally: Json, schema: TableSchema) -> Json | None:
    """Return the manifest's entry about times, None without any; warn of a doubtful zone."""
    if not schema.times:
        return None
    for time in schema.times:
        if f"{time.name} UTC" in tally["zones"] and time.time_zone != "UTC":
            logger.warning(
                "%s is labelled UTC and was converted to wall time in %s; if it already holds "
                "local time, as BigQuery's table does, set time_zone=UTC",
                *(time.name, time.time_zone),
            )
    prefix = f"{schema.times[0].name} " if len(schema.times) == 1 else ""
    return {
        "column": ", ".join(time.name for time in schema.times),
        "wall_time_of": ", ".join(dict.fromkeys(time.time_zone for time in schema.times)),
        "rows_converted_from": {
            name.removeprefix(prefix): count for name, count in tally["zones"].items()
        },
    }


def explain_query(workload: Workload, options: PrepareOptions) -> str:
    """Return the query to BigQuery, without running it."""
    return query_of(workload, _schema(workload, options)[0], options)


def _schema(workload: Workload, options: PrepareOptions) -> tuple[TableSchema, Split]:
    """Return the workload's schema, in which times have the run's time zone, and the split."""
    schema = schema_of(workload)
    zone = options.time_zone
    if options.source == "bigquery" and workload.source and workload.source.bigquery:
        zone = workload.source.bigquery.time_zone or zone
    if zone:
        schema = schema.in_time_zone(zone)
    if options.split_key:
        schema = replace(schema, group_by=tuple(schema.named(options.split_key)))
    split = split_of(workload, options)
    if split.by in (HASH, FILES):
        return schema, split
    [column] = schema.named([split.by])
    split = replace(split, by=column)
    _check_parts(split, schema)
    return replace(schema, split_by=column), split


def _check_parts(split: Split, schema: TableSchema) -> None:
    """Check that a rule has windows if its column is a Timestamp, and values if it is not.

    Raises:
        DataError: it has not; names the part.
    """
    times = [time.name for time in schema.times]
    if split.has_windows and split.by not in times:
        name, [window] = next(iter(split.parts.items()))
        raise DataError(
            f"split.{name} is {window}, a window of time, but {split.by} is no Timestamp of"
            f" {schema.workload} (it has {', '.join(times) or 'none'}); declare it, or without"
            f" making it a feature, as only_read=[Timestamp({split.by!r})]"
        )
    if split.by in times and not split.has_windows:
        name, values = next((n, v) for n, v in split.parts.items() if not is_window(v))
        raise DataError(
            f"split.{name} is {', '.join(values)}, but {split.by} is a Timestamp; give the length"
            " of a window, as 30d, 4w or 12h, or its first day, as 2026-01-31"
        )


def _patterns(options: PrepareOptions) -> list[str]:
    return [str(local_path(pattern)) for pattern in options.files]
