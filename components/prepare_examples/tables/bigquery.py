"""Trips from BigQuery's public table: a query's rows, kept as a Parquet file of the cache.

Untested against the real service: the tests compare the query's text and use a client of their own.
A query is charged by the columns it reads, whatever its limit: only the needed ones are named.
"""

import contextlib
import datetime
import hashlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.columns import REQUIRED

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "bigquery-public-data.chicago_taxi_trips.taxi_trips"
COLUMNS = ("unique_key", *REQUIRED)
GROUP_ROWS = 65_536

logger = logging.getLogger(__name__)


def build_query(*, limit: int, dates: tuple[str, ...] = ()) -> str:
    """The query for `limit` trips, of all or of those that start from one day to another.

    The trips are the first by their key, which is random: the same ones as long as the table is
    the same.

    Args:
        limit: number of trips.
        dates: first and last day, as 2016-01-31; empty for all.

    Raises:
        DataError: the limit is not positive, or the dates are no range.
    """
    if type(limit) is not int or limit < 1:
        raise DataError(f"limit is {limit!r}; BigQuery needs a number of rows, at least 1")
    columns = ",\n  ".join(COLUMNS)
    return f"SELECT\n  {columns}\nFROM `{TABLE}`\n{_where(dates)}ORDER BY unique_key\nLIMIT {limit}"


def fetch_trips(folder: Path, *, project: str, query: str) -> Path:
    """The Parquet file of a query's rows; the query runs only if the folder does not have it.

    The file belongs to the table as it is: when the table changes, the query runs again.

    Raises:
        DataError: the query gives no row.
        OSError: BigQuery cannot be reached, or refuses.
    """
    key = hashlib.sha256(f"{table_modified(project)}\n{query}".encode()).hexdigest()[:16]
    path = folder / f"bigquery-{key}.parquet"
    if path.exists():
        logger.info("BigQuery: %s holds the rows of the same query; delete it to ask anew", path)
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with _reached(project):
        rows = connect(project).query(query).result()
        num_rows = _save(rows.to_arrow_iterable(), path)
    logger.info("BigQuery: %d rows of %s to %s", num_rows, TABLE, path)
    return path


def table_modified(project: str) -> str:
    """Return the time of the table's last change; asking for it is free.

    Raises:
        OSError: BigQuery cannot be reached, or refuses.
    """
    with _reached(project):
        modified: datetime.datetime = connect(project).get_table(TABLE).modified
    return f"{TABLE} of {modified.isoformat()}"


@contextlib.contextmanager
def _reached(project: str) -> Iterator[None]:
    """Turn what the client raises into an error that says what to do."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(
            f"BigQuery, project {project}: {error}; check the project's id and your credentials "
            "(gcloud auth application-default login), or export the table and name its --files"
        ) from error


def connect(project: str) -> Any:
    """A client that pays for its queries through a project."""
    from google.cloud import bigquery

    return bigquery.Client(project=project)


def _where(dates: tuple[str, ...]) -> str:
    if not dates:
        return ""
    try:
        first, last = map(datetime.date.fromisoformat, dates)
    except ValueError:
        first, last = datetime.date.max, datetime.date.min
    if first > last:
        raise DataError(
            f"dates is {','.join(dates)!r}; it must be the first and the last day, such as "
            "2016-01-01,2016-12-31"
        )
    return (
        f"WHERE trip_start_timestamp >= TIMESTAMP '{first}'\n"
        f"  AND trip_start_timestamp < TIMESTAMP '{last + datetime.timedelta(days=1)}'\n"
    )


def _save(batches: "Iterable[pa.RecordBatch]", path: Path) -> int:
    """Writes record batches in one step, in row groups of one size; answers the number of rows."""
    from pyarrow import parquet

    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    writer, num_rows = None, 0
    try:
        for table in _tables(batches):
            writer = writer or parquet.ParquetWriter(partial, table.schema)
            writer.write_table(table)
            num_rows += table.num_rows
        if writer is None:
            raise DataError("BigQuery's answer has no row; give other dates")
        writer.close()
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return num_rows


def _tables(batches: "Iterable[pa.RecordBatch]") -> "Iterable[pa.Table]":
    """The rows of batches of any size, GROUP_ROWS at a time; memory holds no more."""
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
