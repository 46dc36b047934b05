"""Facts that a look at rows tells before they are written: the label's values, and the windows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from components.prepare_examples.parts import Part, Tally
from components.prepare_examples.split_rule import SplitRule, Times
from components.prepare_examples.tables.columns import hashes_of
from components.prepare_examples.tables.plan import Segment
from components.prepare_examples.tables.reading.files import CSV
from components.prepare_examples.tables.segments import blocks
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.labels import binary_text, is_whole
from components.prepare_examples.tables.write import Period, usable_rows
from trainer.workloads.declarations.labels import Binary, Classes
from trainer.workloads.declarations.storage import INT, TEXT


def with_values_of_label(schema: TableSchema, parts: Sequence[Part[Segment]]) -> TableSchema:
    """Return the schema with what the first block of rows tells about its label's values.

    Classes without declared values are whole numbers if all of the block are, else texts. The
    negative value of a binary label is the most frequent one besides `positive`, unless one of the
    two hardly occurs.
    """
    label = schema.label
    if not schema.stored_as:
        values = [value for value, _ in _first_values(schema, parts)]
        is_integer = bool(values) and all(map(is_whole, values))
        return replace(schema, stored_as=INT if is_integer else TEXT)
    if not isinstance(label, Binary) or label.rule_columns or label.is_one_against_rest:
        return schema
    counts = Counter[str]()
    for value, count in _first_values(schema, parts):
        counts[binary_text(value, label.positive)] += count
    num_positive = counts.pop(binary_text(str(label.positive), label.positive), 0)
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    negative = value if num_positive and count > 1 else None
    return replace(schema, negative=negative)


def with_windows(
    rule: SplitRule, schema: TableSchema, parts: Sequence[Part[Segment]], *, period: Period | None
) -> SplitRule:
    """Return a rule by time with its windows, of which the last one ends with the period.

    Without a period it ends with the last row that has a label, which is often known only later.
    Raises as SplitRule.with_times does.
    """
    end = period.stop if period and period.column == rule.column else None
    return rule.with_times(_times(rule, schema, parts, period), end=end)


def _first_values(schema: TableSchema, parts: Sequence[Part[Segment]]) -> list[tuple[str, int]]:
    """Return the label's values in the first block of rows, with their numbers."""
    label = schema.label
    spellings = getattr(label, "spellings", {})
    texts = Classes(label.column, missing=label.missing, spellings=spellings)
    sampled = replace(
        schema, columns=(), key="", group_by=(), split_by="", label=texts, stored_as=TEXT
    )
    segment = next(segment for part in parts for segment in part.inputs)
    if segment.file.kind == CSV:
        segment = replace(segment, stop=-1)  # the same block whatever the number of parts
    _, block = next(blocks(segment, sampled))
    counts = pc.drop_null(block.table[schema.label.name]).value_counts().to_pylist()
    return [(entry["values"], entry["counts"]) for entry in counts]


def _times(
    rule: SplitRule, schema: TableSchema, parts: Sequence[Part[Segment]], period: Period | None
) -> Iterator[Times]:
    """Yield the times of the rows that a run uses; it reads no other columns but groups."""
    needed = {rule.column, *rule.groups, *schema.rule_columns}
    needed |= {period.column} if period else set()
    read = tuple(column for column in schema.columns if column.name in needed)
    sampled = replace(schema, columns=read, key="", group_by=rule.groups)
    for segment in (segment for part in parts for segment in part.inputs):
        for _, block in blocks(segment, sampled):
            rows = usable_rows(block, sampled, period, Tally())
            yield rows[rule.column].combine_chunks(), hashes_of(rows, rule.groups)
