"""Rows of a table of BigQuery: the result of a query, cached as a Parquet file.

Not tested against the real service: the tests compare the query's text and use a fake client.
A query is billed by the columns it reads, whatever its limit, so it selects only the needed ones.

pyarrow is imported inside functions: the light step that computes the fingerprint imports this
module.
"""

import contextlib
import datetime
import hashlib
import itertools
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
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
    """Return the query of a run, for some rows, of all or of those with a time within some days.

    The rows are the first by a column, of which a random key gives a sample: the same query returns
    the same rows until the table changes.

    Raises:
        DataError: the workload declares no table of BigQuery, or no order of its rows.
    """
    table, known = table_of(workload), schema.expected
    keys = (schema.key,) if schema.key and schema.key not in known else ()
    selected = ",\n  ".join(table.columns or (*keys, *known))
    order_by = table.order_by or schema.key
    if not order_by:
        raise DataError("BigQuery needs an order of the rows; declare a key, or order_by")
    where = ""
    if options.dates:
        if not table.time:
            raise DataError("dates are given, but the workload's BigQueryTable declares no time")
        first, last = map(datetime.date.fromisoformat, options.dates)
        where = (
            f"WHERE {table.time} >= TIMESTAMP '{first}'\n"
            f"  AND {table.time} < TIMESTAMP '{last + datetime.timedelta(days=1)}'\n"
        )
    return (
        f"SELECT\n  {selected}\nFROM `{table.table}`\n{where}"
        f"ORDER BY {order_by}\nLIMIT {options.limit}"
    )


def table_of(workload: Workload) -> BigQueryTable:
    """Return the table of BigQuery that a workload declares; DataError if there is none."""
    if workload.source is None or workload.source.bigquery is None:
        raise DataError(
            f"source is 'bigquery', but the workload {workload.name} declares no table of BigQuery;"
            " add source=Source(…, bigquery=BigQueryTable(…)) to it, or use files"
        )
    return workload.source.bigquery


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


def _save(batches: "Iterable[pa.RecordBatch]", path: Path) -> int:
    """Write record batches in one step, in row groups of one size; return the number of rows."""
    import pyarrow as pa
    from pyarrow import dataset, parquet

    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        raise DataError("BigQuery returned no row; use other dates")
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        dataset.write_dataset(
            pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], rows)),
            folder,
            basename_template="{i}.parquet",
            format="parquet",
            preserve_order=True,  # without it, also of a single thread, batches change places
            min_rows_per_group=GROUP_ROWS,
            max_rows_per_group=GROUP_ROWS,
        )
        os.replace(Path(folder, "0.parquet"), path)
    return int(parquet.read_metadata(path).num_rows)
