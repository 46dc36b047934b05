"""Preparation of tables: files are split at the ends of records, and rows into splits by key."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.options import PrepareOptions
from components.prepare_examples.publish import MANIFEST, local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import find_files
from components.prepare_examples.statistics.describe import describe_examples
from components.prepare_examples.tables import columns, quarantine
from components.prepare_examples.tables.beam_pipeline import write_table
from components.prepare_examples.tables.bigquery import build_query, fetch_trips
from components.prepare_examples.tables.files import TableFile, digest_of, open_table
from components.prepare_examples.tables.plan import TablePlan, plan_table
from components.prepare_examples.tables.write import TableOptions
from components.prepare_examples.tfrecords.shards import COMPRESSIONS, ENTRY_FIELDS, SPLITS
from trainer.json_types import Json
from trainer.workloads.taxi_table import DERIVED, FEATURES, LABEL, LABEL_RULE, ROW_KEY, TIME

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableJob:
    """A planned run: its parts, the options of writing them, and the manifest's first fields."""

    workload: str
    table: TablePlan
    options: TableOptions
    header: Json
    settings: PrepareOptions


def plan(workload: str, data_dir: Path, options: PrepareOptions) -> TableJob:
    """Find the files, or fetch the sample; check the headers and plan the parts."""
    files, is_verified = _files(workload, data_dir, options)
    names = {
        file.path: columns.check_header(file.names, file=file.path, ignored=options.ignore_columns)
        for file in files
    }
    common = [name for name in names[files[0].path] if all(name in c for c in names.values())]
    key = columns.check_key(options.split_key or columns.default_key(common), common)
    num_shards = options.planned_shards(sum(file.weight for file in files))
    if num_shards < 1:
        raise DataError(f"the number of train shards is {num_shards}; it must be at least 1")
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
        key=key,
        ratios=options.ratios,
        num_shards=num_shards,
        row_filter=options.row_filter,
        compression=COMPRESSIONS[options.compression],
        has_keys=ROW_KEY in common,
        # BigQuery's table labels the city's wall time UTC.
        time_zone="UTC" if options.source == "bigquery" else options.time_zone,
    )
    header = _header(workload, table, write_options, is_verified=is_verified)
    header["settings"] = options.changed()
    if options.source == "bigquery":
        header["query"] = build_query(limit=options.limit, dates=options.dates)
    return TableJob(workload, table, write_options, header, options)


def explain(job: TableJob) -> list[str]:
    """Return the plan as text, a line for each range of a file."""
    lines = [job.header["split_rule"]]
    for part in job.table.parts:
        shards = ", ".join(f"{shard:05d}" for shard in part.shards)
        for segment in part.segments:
            stop = "the end" if segment.stop < 0 else f"{segment.stop:,}"
            unit = "row groups" if segment.kind == "parquet" else "bytes"
            source = f"{segment.path}, {unit} {segment.start:,} to {stop}"
            lines.append(f"shard {shards} of {job.options.num_shards}: {source}")
    return lines


def write(job: TableJob, folder: Path) -> None:
    """Write the shards, the statistics and then the manifest.

    Raises:
        DataError: a file has changed, too many rows are bad, a split is empty or has only one
            label, or there are anomalies that block.
    """
    settings = job.settings
    result = write_table(
        job.table.parts, job.options, output_dir=folder, beam_options=settings.beam_options
    )
    quarantine.check_share(result, folder, max_share=settings.max_quarantine)
    rows = _checked_rows(result["tally"], job)
    manifest = {**job.header, "rows": rows, "quarantine": quarantine.manifest_entry(result)}
    manifest |= _conversions(result["tally"], job.options)
    manifest["splits"] = _splits(result["shards"])
    _check_splits(manifest["splits"], result["statistics"], job)
    statistics = {
        "workload": job.workload,
        "splits": {
            split: {
                "num_examples": manifest["splits"][split]["num_examples"],
                "features": {name: features[name] for name in columns.NAMES},
            }
            for split, features in result["statistics"].items()
        },
    }
    duplicates = result["duplicates"]
    if duplicates:
        manifest["duplicates"] = duplicates
    manifest |= describe_examples(
        statistics,
        folder,
        schema_path=local_path(settings.schema) if settings.schema else None,
        baseline_path=local_path(settings.baseline) if settings.baseline else None,
        drift_thresholds=settings.drift_thresholds,
        block_on=settings.block_on,
        duplicates=duplicates,
    )
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _files(workload: str, data_dir: Path, options: PrepareOptions) -> tuple[list[TableFile], bool]:
    """Return the files to read, and whether they are the verified sample."""
    if options.source == "bigquery":
        query = build_query(limit=options.limit, dates=options.dates)
        return [open_table(str(fetch_trips(data_dir, project=options.project, query=query)))], False
    if options.files:
        paths = find_files([str(local_path(pattern)) for pattern in options.files])
        return [open_table(path) for path in paths], False
    fetched = fetch(workload, data_dir, trust_files=options.trust_files)
    return [open_table(str(path)) for path in fetched.values()], not options.trust_files


def _header(workload: str, table: TablePlan, options: TableOptions, *, is_verified: bool) -> Json:
    ratios = ", ".join(f"{name} {ratio:.4g}" for name, ratio in options.ratios.items())
    return {
        "workload": workload,
        "compression": options.compression,
        "split_rule": f"by a hash of {' and '.join(options.key)}: {ratios}",
        "label": f"{LABEL}: {LABEL_RULE}",
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
    expected = job.table.num_rows
    if expected not in {None, rows["read"]}:
        raise DataError(
            f"{expected:,} rows were planned, but {rows['read']:,} read: a file has changed; run "
            "again when no program writes to it"
        )
    if rows["read"] != rows["written"] + quarantined + rows["filtered"]:
        raise AssertionError(f"the numbers of rows do not add up: {rows}")
    if rows["written"] == 0:
        raise DataError(_no_rows_message(tally, rows))
    if quarantined:
        logger.warning(
            "%d of %d rows were quarantined: %s",
            quarantined,
            rows["read"],
            quarantine.by_column(tally["quarantined"]),
        )
    return rows


def _no_rows_message(tally: Json, rows: Json) -> str:
    if rows["filtered"]:
        scarcest = max(FEATURES, key=lambda name: int(tally["missing"].get(name, 0)))
        missing = tally["missing"][scarcest]
        return (
            f"the row filter 'complete' leaves 0 of {rows['read']:,} rows: it requires every "
            f"feature, and {scarcest} is missing in {missing:,} of them; leave the filter out"
        )
    if not rows["read"]:
        return "the files have headers but no rows"
    return f"all {rows['read']:,} rows are bad: {quarantine.by_column(tally['quarantined'])}"


def _conversions(tally: Json, options: TableOptions) -> Json:
    """Return the manifest's entries about values that differ from those in the files."""
    zones = tally["zones"]
    if "UTC" in zones and options.time_zone != "UTC":
        logger.warning(
            "%s is labelled UTC and was converted to wall time in %s; if it already holds local "
            "time, as BigQuery's table does, set time_zone=UTC",
            *(TIME, options.time_zone),
        )
    return {
        "times": {
            "column": TIME,
            "wall_time_of": options.time_zone,
            "rows_converted_from": zones,
        },
        "derived": {
            "from": TIME,
            "features": list(DERIVED),
            "rows_in_which_the_files_differ": tally["differing"],
        },
    }


def _splits(entries: Sequence[Json]) -> Json:
    splits: Json = {split: {"num_examples": 0, "shards": []} for split in SPLITS}
    for entry in entries:
        split = splits[entry["split"]]
        split["num_examples"] += entry["num_examples"]
        split["shards"].append({key: entry[key] for key in ENTRY_FIELDS})
    return splits


def _check_splits(splits: Json, statistics: Mapping[str, Json], job: TableJob) -> None:
    for name, split in splits.items():
        if not split["num_examples"]:
            raise DataError(
                f"the {name} split would be empty: it gets no key of "
                f"{' and '.join(job.options.key)}; use more rows, other ratios or a finer split_key"
            )
    labels = statistics["train"][LABEL]
    if labels["num_unique"] == 1:
        value, count = labels["top_values"][0]
        raise DataError(f"{LABEL} is {value} in all {count:,} rows of the train split")
