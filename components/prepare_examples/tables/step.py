"""Planning of tables: files are split at the ends of records, and rows into splits by key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.publish import local_path
from components.prepare_examples.raw_data.fetch import fetch
from components.prepare_examples.raw_data.files import sha256_of
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.split_rule import rule_of, split_of
from components.prepare_examples.tables import columns
from components.prepare_examples.tables.declared import schema_of
from components.prepare_examples.tables.job import TableJob
from components.prepare_examples.tables.period import Period, period_of
from components.prepare_examples.tables.picture_rows import PictureRows, match_rows
from components.prepare_examples.tables.pictures import Pictures, find_table_files
from components.prepare_examples.tables.plan import TablePlan, plan_table
from components.prepare_examples.tables.reading.bigquery import fetch_rows, query_of
from components.prepare_examples.tables.reading.files import TableFile, open_table
from components.prepare_examples.tables.sampling import with_values_of_label, with_windows
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.write import TableOptions
from components.prepare_examples.tfrecords.shards import COMPRESSIONS
from trainer.workloads.base import Workload
from trainer.workloads.declarations.split import FILES, HASH, Split, is_window


@dataclass(frozen=True, kw_only=True)
class OpenedTable:
    """The files of a table, with the columns of each by the schema's names."""

    schema: TableSchema
    split: Split
    period: Period | None
    files: Sequence[TableFile]
    headers: Mapping[str, columns.Header]
    is_verified: bool = False
    pictures: Pictures | None = None
    query: str | None = None

    @property
    def columns(self) -> dict[str, list[str]]:
        """The schema's names of each file's columns, by path."""
        return {path: header.columns for path, header in self.headers.items()}

    @cached_property
    def picture_rows(self) -> PictureRows | None:
        """The rows by their pictures, None without any; reads all rows."""
        if self.pictures is None:
            return None
        return match_rows(self.files, self.columns, self.schema, self.pictures)

    def num_shards(self, options: PrepareOptions) -> int:
        """Return the number of files of each split."""
        num_bytes = sum(file.weight for file in self.files)
        if self.picture_rows is not None:
            num_bytes += self.picture_rows.num_rows * sum(
                column.num_pixels for column in self.schema.images
            )
        return options.planned_shards(num_bytes)


def plan(workload: Workload, data_dir: Path, options: PrepareOptions) -> TableJob:
    """Find the files, or fetch the sample; check the headers and plan the parts."""
    opened = _open_files(workload, data_dir, options)
    columns.check_headers(opened.headers)
    table = plan_table(
        opened.files,
        columns=opened.columns,
        num_shards=opened.num_shards(options),
        digest=lambda file: sha256_of(Path(file.path)),
        max_rows=options.max_examples,
    )
    return _make_job(opened, table, options)


def _open_files(workload: Workload, data_dir: Path, options: PrepareOptions) -> OpenedTable:
    """Find the files, or fetch the sample, and read their headers."""
    schema, split = _schema(workload, options)
    period = period_of(schema, options)
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
    names = {file.path: file.names for file in files}
    return OpenedTable(
        schema=schema,
        split=split,
        period=period,
        files=files,
        headers=columns.match_headers(names, schema, ignored=options.ignore_columns),
        is_verified=is_verified,
        pictures=pictures,
        query=query,
    )


def _make_job(opened: OpenedTable, table: TablePlan, options: PrepareOptions) -> TableJob:
    """Return the job of writing the planned rows.

    Raises:
        DataError: there are none, or a column that decides the split is not in all files.
    """
    schema, files = opened.schema, opened.files
    if table.num_rows == 0:
        raise DataError(f"{files[0].path} has a header but no rows")
    first, *others = opened.columns.values()
    common = [name for name in first if all(name in other for other in others)]
    groups = schema.group_by if schema.split_by else ()
    key = columns.check_key(options.split_key or groups, common, schema)
    schema = with_values_of_label(schema, table.parts)
    rule = rule_of(
        opened.split, options, hashed=" and ".join(key), paths=[file.path for file in files]
    )
    if time := next((time for time in schema.times if time.name == rule.column), None):
        rule = replace(rule, zone=time.time_zone, groups=groups)
        rule = with_windows(rule, schema, table.parts, period=opened.period)
    split_columns = None
    if key == (columns.WHOLE_ROW,) and rule.is_hashed:
        split_columns = sorted(
            {name for file in files for name in columns.hashed_names(file.names).values()}
        )
    write_options = TableOptions(
        schema=schema,
        key=key,
        rule=rule,
        num_shards=opened.num_shards(options),
        compression=COMPRESSIONS[options.compression],
        period=opened.period,
        patterns=tuple(_patterns(options)),
        left_out=opened.picture_rows.reasons if opened.picture_rows else {},
    )
    return TableJob(
        table=table,
        options=write_options,
        settings=options,
        is_verified=opened.is_verified,
        split_columns=split_columns,
        query=opened.query,
        pictures=opened.picture_rows,
    )


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
