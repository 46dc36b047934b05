"""Notes of `trainyard new` on a table: each guess that a user may want to change, in one line."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow.compute as pc

from components.prepare_examples.tables.columns import INDEX_NAMES
from components.shared.text.value_text import first_of
from pipelines.projects.literals import call, literal, quoted
from pipelines.projects.starter.column import (
    FEWEST_NUMBERS,
    GROUP,
    IGNORED,
    KEY,
    TableColumn,
    rows_text,
)
from pipelines.projects.starter.reading import Contents
from trainer.workloads.declarations.names import normal_form
from trainer.workloads.declarations.written import NEGATIVE, Written

MOST_SHOWN = 8  # columns with the same note
MOST_MISTAKES = 3  # of a column


def notes_of(contents: Contents, columns: Sequence[TableColumn]) -> Iterator[str]:
    """Yield the notes on the columns of a table and on its rows."""
    yield from shared((column, note) for column in columns for note in _on(contents, column))
    for row, names in _totals(columns).items():
        where = contents.row_text(row)
        yield f"{first_of(names, MOST_SHOWN)}: {where} has the sum of all others: remove a total"
    if contents.num_headers:
        repeated = "repeats" if contents.num_headers == 1 else "repeat"
        yield f"{rows_text(contents.num_headers)} {repeated} the header: left out"
    if contents.ragged:
        yield f"{rows_text(len(contents.ragged))} left out: {contents.ragged[0]}"


def _totals(columns: Iterable[TableColumn]) -> dict[int, list[str]]:
    """Return the columns of which a row has the sum of all other rows, by the row."""
    totals: dict[int, list[str]] = {}
    for column in columns:
        if column.written and column.role not in (KEY, GROUP):
            most, total = column.summary["max"], pc.sum(column.numbers).as_py()
            is_sum = most > 0 and math.isclose(total, 2 * most, rel_tol=1e-12)
            if is_sum and column.num_unique >= FEWEST_NUMBERS:
                totals.setdefault(pc.index(column.numbers, most).as_py(), []).append(column.name)
    return totals


def shared(notes: Iterable[tuple[TableColumn, str]]) -> Iterator[str]:
    """Yield notes on columns, one for all those whose notes differ only by their names."""
    by_text: dict[str, tuple[str, list[str]]] = {}
    for column, note in notes:
        text = note.replace(quoted(column.declared), "")
        names = by_text.setdefault(text, (note, []))[1]
        names.append(column.name or "the column without a name")
    for note, names in by_text.values():
        yield f"{first_of(names, MOST_SHOWN)}: {note}"


def _on(contents: Contents, column: TableColumn) -> Iterator[str]:
    keep = column.declaration if column.kind else call("Category", column.declared)
    if column.role == KEY:
        change = f"; to make it one, declare it, as {keep}, and remove key" * bool(column.kind)
        yield f"the key, which is no feature: {column.seen}{change}"
    elif column.role == GROUP:
        yield f"no feature, but group_by: {column.seen}"
    elif column.role != IGNORED:
        if column.is_said or column.num_infinite:
            yield f"read as {column.declaration}: {column.seen}"
        yield from _on_values(contents, column)
    elif normal_form(column.name) in INDEX_NAMES:
        yield f"left out: {column.seen}; to keep it, give it another name in the file"
    elif column.unusable:
        yield f"left out: {column.seen}"
    else:
        alias = f"{quoted(column.name)}: {quoted(column.declared)}"
        add = f", add aliases={{{alias}}}" * column.needs_alias
        yield (
            f"left out: {column.seen}; to keep it, declare it in workload.py, as {keep}{add}, and"
            " remove it from ignored"
        )


def _on_values(contents: Contents, column: TableColumn) -> Iterator[str]:
    form = column.written
    if form and {"written", "signs"} & column.as_read.keys():
        texts = [
            text for text in column.ranked if Written().number_of(text) != form.number_of(text)
        ]
        text = next(iter(texts), column.ranked[0])
        units = [sign for sign in form.signs if sign in form.factors and sign not in NEGATIVE]
        of_units = f", whatever the unit, {' or '.join(units)}" if len(units) > 1 else ""
        yield (
            f"{text!r} is read as {form.number_of(text):.15g}{of_units}; if that is wrong, change"
            " written or signs in workload.py"
        )
    if column.has_blanks:
        yield "blanks around values are no part of them"
    for text in column.reading.markers:
        yield f"{text!r} is read as missing; if that is wrong, change missing in workload.py"
    if missing := tuple(column.perhaps_missing):
        shown = ", ".join(map(repr, missing))
        yield f"perhaps missing: {shown}; if so, add missing={literal(missing)} in workload.py"
    mistakes: Mapping[str, str] = {} if column.kind == "Category" else column.reading.mistakes
    for text, why in [*mistakes.items()][:MOST_MISTAKES]:
        row = contents.row_text(column.texts.index(text).as_py())
        yield f"{row}: {text!r} {why}, so the row is left out; correct the file"
    if (num_more := len(mistakes) - MOST_MISTAKES) > 0:
        yield f"{num_more} more values like these, whose rows are left out"
