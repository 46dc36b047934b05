"""The values of a label, from a table's files to the examples."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.prepare_examples.output.quarantine import BadRows
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.values.written import (
    check_limits,
    mapped,
    parse_list,
    to_integers,
)
from trainer.workloads.declarations.features import Category
from trainer.workloads.declarations.labels import Binary, Classes, Multilabel, Regression
from trainer.workloads.declarations.storage import INT
from trainer.workloads.declarations.written import plain_text

TRUE, FALSE = {"true", "t", "1"}, {"false", "f", "0"}


def parse_label(column: pa.Array, schema: TableSchema, bad: BadRows) -> pa.Array:
    """Return the label of each row: int64, float64, texts or lists of texts.

    Args:
        column: the values that were read; numbers for a regression and for classes of integers.
        schema: of the table.
        bad: gets the rows whose value the label does not have. A missing one is null in the result.
    """
    label = schema.label
    if spellings := getattr(label, "spellings", None):
        column = mapped(column, lambda text: spelled(text, spellings), pa.string())
    match label:
        case Multilabel():
            return _several(column, label, bad)
        case Regression():
            check_limits(column, label.name, label, bad)
            return column
        case Binary():
            return _binary(column, label, schema.negative, bad)
        case Classes():
            return _class_values(column, label, bad, is_integer=schema.stored_as == INT)
    raise NotImplementedError(label)


def spelled(text: str, spellings: Mapping[str, str]) -> str:
    """Return the value that a text is another spelling of, or the text."""
    plain = plain_text(text)
    return spellings.get(plain, plain)


def binary_text(text: str, positive: Any) -> str:
    """Return the text of a binary label's value: the same one for all its spellings.

    If the positive value is a number or a truth value, 1.0, t and True are 1.
    """
    plain = plain_text(text)
    if not isinstance(positive, int | float):
        return plain
    if plain.lower() in TRUE | FALSE:
        return str(int(plain.lower() in TRUE))
    number = _number(plain)
    return plain if number is None else f"{number:.15g}"


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number, and not a code such as 007."""
    if re.match(r"0\d", text.strip()):
        return False
    number = _number(text)
    return number is not None and number == int(number)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def _binary(column: pa.Array, label: Binary, negative: str | None, bad: BadRows) -> pa.Array:
    """Return 1 for the positive value, else 0; a row with neither value is bad."""
    positive = binary_text(str(label.positive), label.positive)
    texts = mapped(column, lambda value: binary_text(value, label.positive), pa.string())
    if negative is not None:
        bad.add(
            pc.invert(pc.is_in(texts, pa.array([positive, negative, None]))),
            label.name,
            lambda row: f"{texts[row].as_py()!r} is neither {positive!r} nor {negative!r}",
        )
    return pc.equal(texts, positive).cast(pa.int64())


def _class_values(column: pa.Array, label: Classes, bad: BadRows, *, is_integer: bool) -> pa.Array:
    if is_integer:
        column = to_integers(column, label.name, bad)
    if label.values:
        known = set(label.values) if is_integer else _texts_of(label)
        allowed = _shown(label)
        bad.add(
            pc.invert(pc.is_in(column, pa.array([*known, None]))),
            label.name,
            lambda row: f"{column[row].as_py()!r} is not a class; allowed: {allowed}",
        )
    return column


def _several(column: pa.Array, label: Multilabel, bad: BadRows) -> pa.Array:
    """Return lists of labels; a missing value is an empty list."""
    labels = parse_list(column, Category(label.name, separator=label.separator), bad)
    if label.values:
        values, allowed = labels.flatten(), _shown(label)
        bad.add(
            pc.invert(pc.is_in(values, pa.array([*_texts_of(label)]))),
            label.name,
            lambda place: f"{values[place].as_py()!r} is not a label; allowed: {allowed}",
            rows=np.asarray(pc.list_parent_indices(labels)),
        )
    return pc.coalesce(labels, pa.scalar([], labels.type))


def _texts_of(label: Classes | Multilabel) -> set[str]:
    return {plain_text(str(value)) for value in label.values}


def _shown(label: Classes | Multilabel) -> str:
    values = list(map(str, label.values))
    return ", ".join(values[:10]) + (", …" if len(values) > 10 else "")  # noqa: PLR2004
