"""Preparation of tables: files are split at the ends of records, and rows into splits by key."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from components.prepare_examples.declarations import table_fields
from components.prepare_examples.errors import DataError
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import (
    finish_dataset,
    splits_of_entries,
    statistics_of,
)
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.bigquery import fetch_rows, query_of
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.beam_pipeline import write_table
from components.prepare_examples.tables.checks import (
    absent_classes,
    check_binary,
    check_label,
    check_splits,
)
from components.prepare_examples.tables.declared import schema_of
from components.prepare_examples.tables.period import period_of
from components.prepare_examples.tables.plan import TablePlan, plan_table
from components.prepare_examples.tables.reading.files import (
    CSV,
    STREAM,
    TableFile,
    digest_of,
    open_table,
)
from components.prepare_examples.tables.sampling import with_values_of_label
from components.prepare_examples.tables.table_schema import (
    TIME,
    TableSchema,
)
from components.prepare_examples.tables.write import TableOptions
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer import Json
from trainer.workloads.base import Workload

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableJob:
    """A planned run: its parts, the options of writing them, and the manifest's first fields."""

    workload: str
    table: TablePlan
    options: TableOptions
    header: Json
    settings: PrepareOptions


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> TableJob:
    """Find the files, or fetch the sample; check the headers and plan the parts."""
    schema = _schema(workload, options)
    period = period_of(schema, options)
    files, is_verified = _files(workload, schema, data_dir, options)
    by_path = {file.path: file.names for file in files}
    headers = columns.match_headers(by_path, schema, ignored=options.ignore_columns)
    names = {
        path: columns.check_header(header, schema=schema, file=path)
        for path, header in headers.items()
    }
    common = [name for name in names[files[0].path] if all(name in c for c in names.values())]
    key = columns.check_key(options.split_key, common, schema)
    num_shards = options.planned_shards(sum(file.weight for file in files))
    table = plan_table(
        files,
        columns=names,
        num_shards=num_shards,
        digest=digest_of,
        max_rows=options.max_examples,
    )
    if table.num_rows == 0:
        raise DataError(f"{files[0].path} has a header but no rows")
    write_options = TableOptions(
        schema=with_values_of_label(schema, table.parts),
        key=key,
        ratios=options.ratios,
        num_shards=num_shards,
        row_filter=options.row_filter,
        compression=COMPRESSIONS[options.compression],
        has_keys=columns.has_key(common, schema),
        period=period,
    )
    header = _header(table, write_options, is_verified=is_verified)
    if key == (columns.WHOLE_ROW,):
        header["split_columns"] = columns.hashed_names(n for file in files for n in file.names)
    header["settings"] = options.changed()
    if options.source == "bigquery":
        header["query"] = query_of(workload, schema, options)
    return TableJob(workload.name, table, write_options, header, options)


def _schema(workload: Workload, options: PrepareOptions) -> TableSchema:
    """Return the workload's schema, in which times have the time zone of the options."""
    schema = schema_of(workload.name, reference=workload.reference, **table_fields(workload))
    zone = options.time_zone
    if options.source == "bigquery" and workload.source and workload.source.bigquery:
        zone = workload.source.bigquery.time_zone or zone
    if not zone:
        return schema
    changed = [replace(c, time_zone=zone) if c.kind == TIME else c for c in schema.columns]
    return replace(schema, columns=tuple(changed))


def explain(job: TableJob) -> list[str]:
    """Return the plan as text, a line for each range of a file."""
    lines = [job.header["split_rule"]]
    for part in job.table.parts:
        shards = ", ".join(f"{shard:05d}" for shard in part.shards)
        for segment in part.segments:
            stop = "the end" if segment.stop < 0 else f"{segment.stop:,}"
            unit = "bytes" if segment.kind in (CSV, STREAM) else "groups of rows"
            source = f"{segment.path}, {unit} {segment.start:,} to {stop}"
            lines.append(f"shard {shards} of {job.options.num_shards}: {source}")
    return lines


def explain_query(workload: Workload, options: PrepareOptions) -> str:
    """Return the query to BigQuery, without running it."""
    return query_of(workload, _schema(workload, options), options)


def write(job: TableJob, folder: Path) -> None:
    """Write the shards, the statistics and then the manifest.

    Raises:
        DataError: a file has changed, too many rows are bad, a split is empty or has only one
            label, or there are anomalies that block.
    """
    settings, label = job.settings, job.options.schema.label
    result = write_table(
        job.table.parts, job.options, output_dir=folder, beam_options=settings.beam_options
    )
    check_binary(result["tally"]["labels"], label)
    quarantine.check_share(result, folder, max_share=settings.max_quarantine)
    rows = _checked_rows(result["tally"], job)
    if rows["quarantined"]:
        logger.warning(
            "%d of %d rows were quarantined: %s",
            *(rows["quarantined"], rows["read"], quarantine.worst_columns(result, folder)),
        )
    manifest = {**job.header, "rows": rows, "quarantine": quarantine.manifest_entry(result)}
    manifest |= _conversions(result["tally"], job.options.schema)
    manifest["splits"] = splits_of_entries(result["shards"])
    check_splits(manifest["splits"], job.options.key)
    check_label(
        result["statistics"],
        result["tally"]["labels"],
        label,
        quarantined=result["tally"]["quarantined"],
    )
    for split, classes in absent_classes(result["statistics"], label).items():
        shown = ", ".join(map(str, classes))
        logger.warning("no row of the %s split has the %s %s", split, label.name, shown)
    statistics = statistics_of(
        result["statistics"],
        manifest["splits"],
        workload=job.workload,
        names=job.options.schema.names,
    )
    duplicates = result["duplicates"]
    if duplicates:
        manifest["duplicates"] = duplicates
    finish_dataset(manifest, statistics, folder, settings=settings, duplicates=duplicates)


def _files(
    workload: Workload, schema: TableSchema, data_dir: Path, options: PrepareOptions
) -> tuple[list[TableFile], bool]:
    """Return the files to read, and whether they are the verified ones of the source."""
    if options.source == "bigquery":
        query = query_of(workload, schema, options)
        path = fetch_rows(workload, data_dir, project=options.project, query=query)
        return [open_table(str(path))], False
    if options.files:
        paths = find_files([str(local_path(pattern)) for pattern in options.files])
        return [open_table(path, header=schema.header) for path in paths], False
    fetched = fetch(workload.reference, data_dir, trust_files=options.trust_files)
    verified = [open_table(str(path), header=schema.header) for path in fetched.values()]
    return verified, not options.trust_files


def _header(table: TablePlan, options: TableOptions, *, is_verified: bool) -> Json:
    ratios = ", ".join(f"{name} {ratio:.4g}" for name, ratio in options.ratios.items())
    schema = options.schema
    key = " and ".join(options.key)
    return {
        "workload": schema.workload,
        "compression": options.compression,
        "split_rule": f"by a hash of {key}: {ratios}",
        "label": schema.label.words,
        "sources": [
            {"file": Path(path).name, "sha256": sha256, "verified": is_verified}
            for path, sha256 in table.digests.items()
        ],
    }


def _checked_rows(tally: Json, job: TableJob) -> Json:
    """Return the manifest's numbers of rows, after checking that they add up."""
    quarantined = sum(tally["quarantined"].values())
    rows: Json = {
        "read": tally["read"],
        "written": tally["written"],
        "quarantined": quarantined,
        "filtered": tally["filtered"],
    }
    if tally["unlabelled"]:
        rows["unlabelled"] = tally["unlabelled"]
    if tally["headers"]:
        rows["repeated_headers"] = tally["headers"]
        logger.warning("%d rows repeat the header of their file and are left out", tally["headers"])
    expected = job.table.num_rows
    if expected not in {None, rows["read"]}:
        raise DataError(
            f"{expected:,} rows were planned, but {rows['read']:,} read: a file has changed; run "
            "again when no program writes to it"
        )
    if rows["read"] != sum(rows.values()) - rows["read"]:
        raise AssertionError(f"the numbers of rows do not add up: {rows}")
    if rows["written"] == 0:
        raise DataError(_no_rows_message(tally, rows, job.options))
    if unlabelled := rows.get("unlabelled"):
        label = job.options.schema.label.name
        logger.warning("%d of %d rows have no %s and are left out", unlabelled, rows["read"], label)
    return rows


def _no_rows_message(tally: Json, rows: Json, options: TableOptions) -> str:
    schema = options.schema
    if options.period and rows["filtered"]:
        return (
            f"0 of {rows['read']:,} rows have a {options.period}; use other dates, or a longer"
            " window"
        )
    if rows["filtered"]:
        scarcest = max(schema.features, key=lambda name: int(tally["missing"].get(name, 0)))
        missing = tally["missing"][scarcest]
        return (
            f"the row filter 'complete' leaves 0 of {rows['read']:,} rows: it requires every "
            f"feature, and {scarcest} is missing in {missing:,} of them; leave the filter out"
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


def _conversions(tally: Json, schema: TableSchema) -> Json:
    """Return the manifest's entries about values that differ from those in the files."""
    found: Json = {}
    for time in schema.times:
        prefix = f"{time.name} "
        zones = {
            name.removeprefix(prefix): count
            for name, count in tally["zones"].items()
            if name.startswith(prefix)
        }
        if "UTC" in zones and time.time_zone != "UTC":
            logger.warning(
                "%s is labelled UTC and was converted to wall time in %s; if it already holds "
                "local time, as BigQuery's table does, set time_zone=UTC",
                *(time.name, time.time_zone),
            )
    if schema.times:
        is_single = len(schema.times) == 1
        first = f"{schema.times[0].name} "
        found["times"] = {
            "column": ", ".join(time.name for time in schema.times),
            "wall_time_of": ", ".join(dict.fromkeys(time.time_zone for time in schema.times)),
            "rows_converted_from": {
                name.removeprefix(first) if is_single else name: count
                for name, count in tally["zones"].items()
            },
        }
    if schema.parts:
        found["derived"] = {
            "from": ", ".join(dict.fromkeys(part.of for part in schema.parts)),
            "features": [part.name for part in schema.parts],
            "rows_in_which_the_files_differ": tally["differing"],
        }
    return found
