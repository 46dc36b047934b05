"""The first rows of a table, from which the type of a label's classes is inferred."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from components.prepare_examples.tables.plan import Part
from components.prepare_examples.tables.reading.segments import blocks
from components.prepare_examples.tables.table_schema import CLASSES, TableSchema
from components.prepare_examples.tables.values.labels import is_whole


def with_kind_of_classes(schema: TableSchema, parts: Sequence[Part]) -> TableSchema:
    """Return the schema with the type of classes without declared values.

    They are whole numbers if all those of the first block of rows are, else texts.
    """
    label = schema.label
    if label.kind != CLASSES or label.is_integer is not None:
        return schema
    sampled = replace(schema, columns=(), key="", group_by=())
    segment = next(segment for part in parts for segment in part.segments)
    _, block = next(blocks(segment, sampled))
    values = pc.drop_null(block.table[label.name].combine_chunks().unique()).to_pylist()
    is_integer = bool(values) and all(map(is_whole, values))
    return replace(schema, label=replace(label, is_integer=is_integer))
