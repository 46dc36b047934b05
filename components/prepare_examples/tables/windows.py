"""The windows of a rule by time, from the times of a table's rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from components.prepare_examples.split_rule import SplitRule, Times
from components.prepare_examples.tables.columns import hashes_of
from components.prepare_examples.tables.period import Period
from components.prepare_examples.tables.plan import Part
from components.prepare_examples.tables.reading.segments import blocks
from components.prepare_examples.tables.results import Tally
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.write import usable_rows


def with_windows(
    rule: SplitRule, schema: TableSchema, parts: Sequence[Part], *, period: Period | None
) -> SplitRule:
    """Return a rule by time with its windows, of which the last one ends with the period.

    Without a period it ends with the last row that has a label, which is often known only later.

    Raises:
        DataError: no row has a time, windows overlap, or nothing is left for training.
    """
    is_moved = period is not None and period.column == rule.column
    end = period.stop if period and is_moved else None
    return rule.with_times(_times(rule, schema, parts, period), end=end)


def _times(
    rule: SplitRule, schema: TableSchema, parts: Sequence[Part], period: Period | None
) -> Iterator[Times]:
    """Yield the times of the rows that a run uses; it reads no other columns but groups."""
    needed = {rule.column, *rule.groups, *schema.rule_columns}
    needed |= {period.column} if period else set()
    read = tuple(column for column in schema.columns if column.name in needed)
    sampled = replace(schema, columns=read, key="", group_by=rule.groups)
    for segment in (segment for part in parts for segment in part.segments):
        for _, block in blocks(segment, sampled):
            rows = usable_rows(block, sampled, period, Tally())
            yield rows[rule.column].combine_chunks(), hashes_of(rows, rule.groups)
