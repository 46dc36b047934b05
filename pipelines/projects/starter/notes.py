"""Notes of `trainyard new` on a table: each guess that a user may want to change, in one line."""

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.labels import LabelGuess
from pipelines.projects.starter.texts import FEATURE, KEY, Guess, Texts, quoted
from pipelines.projects.starter.written import MISSING_NUMBERS, alike, as_tuple
from trainer.workloads.declarations.written import Written

MOST_VALUES = 1_000  # distinct texts that are compared
NINES = re.compile(r"-?9{2,}(\.0*)?")  # -999 and the like, which may mean a missing number
FAR = 3  # times the largest other number


def notes_of(contents: Contents, guesses: Sequence[Guess], label: LabelGuess) -> list[str]:
    """Return the notes on the columns of a table and on its rows."""
    said = [f"read as {label.declaration}: {label.seen}"] if label.is_said else []
    said += _on_values(contents, label.column)
    notes = [f"{label.column.name}: {note}" for note in said]
    for guess in guesses:
        notes += [f"{guess.column.name}: {note}" for note in _on_guess(contents, guess)]
    if contents.num_headers:
        notes.append(f"{contents.num_headers:,} rows repeat the header and are left out")
    return notes


def _on_guess(contents: Contents, guess: Guess) -> Iterator[str]:
    if guess.role == KEY:
        yield f"the key, which is no feature: {guess.seen}"
    elif guess.role != FEATURE:
        yield (
            f"left out: {guess.seen}; to keep it, declare it in workload.py, as"
            f" Category({quoted(guess.name)}), and remove it from ignored"
        )
    else:
        if guess.is_said or guess.column.facts.num_infinite:
            yield f"read as {guess.declaration}: {guess.seen}"
        yield from _on_values(contents, guess.column, is_compared=guess.kind == "Category")
        for text, count in _perhaps_missing(guess.column):
            yield (
                f"perhaps missing: {text!r} ({count:,} rows); if so, add missing={as_tuple([text])}"
                " to its declaration in workload.py"
            )


def _perhaps_missing(column: Texts) -> list[tuple[str, int]]:
    """Return the values that may mean a missing one, with their numbers of rows."""
    values, numbers = column.ranked[:MOST_VALUES], column.numbers
    if numbers is None:
        markers = set(map(str.casefold, MISSING_NUMBERS))
        return [item for item in values if item[0].casefold() in markers]
    nines = [item for item in values if item[1] > 1 and NINES.fullmatch(item[0])]
    return [item for item in nines if _is_far(float(item[0]), numbers)]


def _is_far(value: float, numbers: pa.Array) -> bool:
    """Return whether a number is no value like the others: of another sign, or far from them."""
    others = pc.min_max(numbers.filter(pc.not_equal(numbers, value)))
    low, high = others["min"].as_py(), others["max"].as_py()
    if low is None:
        return False
    return bool(value < 0 <= low) or abs(value) > FAR * max(abs(low), abs(high))


def _on_values(contents: Contents, column: Texts, *, is_compared: bool = True) -> Iterator[str]:
    """Yield what is not read as it is written, and how to change it."""
    reading = column.reading
    form = reading.form
    if form is not None and not form.is_plain:
        texts = (text for text, _ in column.ranked if Written().number_of(text) is None)
        text = next(texts, column.ranked[0][0])
        yield (
            f"{text!r} is read as {form.number_of(text):.15g}; if that is wrong, change decimal,"
            " thousands or signs in workload.py"
        )
    if reading.markers:
        shown = ", ".join(f"{text!r} ({count:,} rows)" for text, count in reading.markers.items())
        yield f"read as missing: {shown}; if that is wrong, change missing in workload.py"
    for text in reading.odd:
        yield (
            f"{contents.row_of(column, text)}: {text!r} {reading.mistake}, so the row is left out;"
            " correct the file"
        )
    if reading.num_blank:
        yield f"blanks around {reading.num_blank:,} values are no part of them"
    if reading.form is None and is_compared and column.num_unique <= MOST_VALUES:
        for group in alike(column.ranked):
            shown = " and ".join(f"{value!r} ({count:,} rows)" for value, count in group)
            yield f"{shown} are different values; correct the file if they mean the same"
