"""Period of a table's rows: the days of a run's window, by one of the table's times."""

import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.table_schema import TableSchema


class Period(NamedTuple):
    """Rows with a time from `start` to before `stop`, both seconds of wall time since 1970."""

    column: str
    start: int
    stop: int

    def __str__(self) -> str:
        first, last = (
            datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            for seconds in (self.start, self.stop - 1)
        )
        return f"{self.column} from {first:%Y-%m-%d} to {last:%Y-%m-%d}"


def period_of(schema: TableSchema, options: PrepareOptions) -> Period | None:
    """Return the period of the options' dates; None for all rows.

    Raises:
        DataError: the table has no such time, or several and none is named.
    """
    times = [column.name for column in schema.times]
    [time_column] = schema.named([options.time_column])
    if time_column and time_column not in times:
        raise DataError(
            f"time_column is {options.time_column!r}, which is no Timestamp of the workload"
            f" {schema.workload}; it has {', '.join(times) or 'none'}"
        )
    if not options.dates or options.source == "bigquery":  # its query has the dates
        return None
    if len(times) != 1 and not time_column:
        names = f"several: {', '.join(times)}" if times else "none"
        raise DataError(
            f"dates (or window) select rows by a Timestamp, and the workload {schema.workload} has"
            f" {names}; name one with prepare.time_column, or write {{run_date:%Y-%m-%d}} into the"
            " names in prepare.files"
        )
    first, last = map(datetime.date.fromisoformat, options.dates)
    return Period(time_column or times[0], _seconds(first), _seconds(last, days=1))


def within(rows: pa.Table, period: Period | None) -> pa.Table:
    """Return the rows of a period; those without a time are left out."""
    if period is None:
        return rows
    times = rows[period.column]
    is_within = pc.and_(pc.greater_equal(times, period.start), pc.less(times, period.stop))
    return rows.filter(is_within).combine_chunks()


def _seconds(day: datetime.date, *, days: int = 0) -> int:
    midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
    return int((midnight + datetime.timedelta(days=days)).timestamp())
