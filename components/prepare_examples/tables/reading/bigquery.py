"""Rows of a table of BigQuery: the result of a query, cached as a Parquet file.

Not tested against the real service: the tests compare the query's text and use a fake client.
A query is billed by the columns it reads, whatever its limit, so it selects only the needed ones.

pyarrow is imported inside functions: the light step that computes the fingerprint imports this
module.
"""

import contextlib
import datetime
import hashlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.table_schema import TableSchema
from trainer.workloads.base import Workload
from trainer.workloads.declarations.sources import BigQueryTable

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 65_536

logger = logging.getLogger(__name__)


def query_of(workload: Workload, schema: TableSchema, options: PrepareOptions) -> str:
    """Return the query of a run.

    Raises:
        DataError: the workload declares no table of BigQuery, or no order of its rows.
    """
    table = table_of(workload)
    known = schema.expected
    keys = (schema.key,) if schema.key and schema.key not in known else ()
    return build_query(
        table,
        columns=table.columns or (*keys, *known),
        order_by=table.order_by or schema.key,
        limit=options.limit,
        dates=options.dates,
    )


def table_of(workload: Workload) -> BigQueryTable:
    """Return the table of BigQuery that a workload declares; DataError if there is none."""
    if workload.source is None or workload.source.bigquery is None:
        raise DataError(
            f"source is 'bigquery', but the workload {workload.name} declares no table of BigQuery;"
            " add source=Source(…, bigquery=BigQueryTable(…)) to it, or use files"
        )
    return workload.source.bigquery


def build_query(
    table: BigQueryTable,
    *,
    columns: Sequence[str],
    order_by: str,
    limit: int,
    dates: tuple[str, ...] = (),
) -> str:
    """Return the query for `limit` rows, of all or of those with a time within some days.

    The rows are the first by the column `order_by`, of which a random key gives a sample: the same
    query returns the same rows until the table changes.
    """
    if not order_by:
        raise DataError("BigQuery needs an order of the rows; declare a key, or order_by")
    selected = ",\n  ".join(columns)
    return (
        f"SELECT\n  {selected}\nFROM `{table.table}`\n{_where(table.time, dates)}"
        f"ORDER BY {order_by}\nLIMIT {limit}"
    )


def fetch_rows(workload: Workload, folder: Path, *, project: str, query: str) -> Path:
    """Return the Parquet file of a query's rows; run the query unless the folder has the file.

    The query runs again after the table has changed.

    Raises:
        DataError: the query returns no row.
        OSError: BigQuery cannot be reached, or refuses.
    """
    modified = table_modified(workload, project)
    key = hashlib.sha256(f"{modified}\n{query}".encode()).hexdigest()[:16]
    path = folder / f"bigquery-{key}.parquet"
    if path.exists():
        logger.info("BigQuery: using the rows of this query in %s; delete it to query again", path)
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with explaining_errors(project):
        rows = connect(project).query(query).result()
        num_rows = _save(rows.to_arrow_iterable(), path)
    logger.info("BigQuery: %d rows of %s to %s", num_rows, table_of(workload).table, path)
    return path


def table_modified(workload: Workload, project: str) -> str:
    """Return the time of the table's last change; this request is free.

    Raises:
        OSError: BigQuery cannot be reached, or refuses.
    """
    table = table_of(workload).table
    with explaining_errors(project):
        modified: datetime.datetime = connect(project).get_table(table).modified
    return f"{table} of {modified.isoformat()}"


@contextlib.contextmanager
def explaining_errors(project: str) -> Iterator[None]:
    """Raise the client's errors as an OSError that says what to do."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(
            f"BigQuery, project {project}: {error}; check the project's id and your credentials "
            "(gcloud auth application-default login), or export the table and use --files"
        ) from error


def connect(project: str) -> Any:
    """Return a client whose queries are billed to a project."""
    from google.cloud import bigquery

    return bigquery.Client(project=project)


def _where(time: str, dates: tuple[str, ...]) -> str:
    if not dates:
        return ""
    if not time:
        raise DataError("dates are given, but the workload's BigQueryTable declares no time")
    first, last = map(datetime.date.fromisoformat, dates)
    return (
        f"WHERE {time} >= TIMESTAMP '{first}'\n"
        f"  AND {time} < TIMESTAMP '{last + datetime.timedelta(days=1)}'\n"
    )


def _save(batches: "Iterable[pa.RecordBatch]", path: Path) -> int:
    """Write record batches in one step, in row groups of one size; return the number of rows."""
    from pyarrow import parquet

    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    writer, num_rows = None, 0
    try:
        for table in _tables(batches):
            writer = writer or parquet.ParquetWriter(partial, table.schema)
            writer.write_table(table)
            num_rows += table.num_rows
        if writer is None:
            raise DataError("BigQuery returned no row; use other dates")
        writer.close()
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return num_rows


def _tables(batches: "Iterable[pa.RecordBatch]") -> "Iterable[pa.Table]":
    """Yield the rows of batches of any size, GROUP_ROWS at a time, to bound memory."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    num_waiting = 0
    for batch in batches:
        waiting += [batch] if batch.num_rows else []
        num_waiting += batch.num_rows
        while num_waiting >= GROUP_ROWS:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, GROUP_ROWS)
            waiting = table.slice(GROUP_ROWS).to_batches()
            num_waiting -= GROUP_ROWS
    if waiting:
        yield pa.Table.from_batches(waiting)
