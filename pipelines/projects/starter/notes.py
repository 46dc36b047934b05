"""Notes of `trainyard new` on a table: each guess that a user may want to change, in one line."""

import re
from collections.abc import Iterable, Iterator, Sequence

from components.prepare_examples.tables.columns import INDEX_NAMES
from components.shared.text.value_text import first_of
from pipelines.projects.literals import call, literal, quoted
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.labels import REGRESSION, LabelGuess
from pipelines.projects.starter.texts import FEATURE, GROUP, KEY, Guess, Texts, rows_text
from trainer.workloads.declarations.names import normal_form
from trainer.workloads.declarations.written import Written

MOST_VALUES = 1_000  # distinct texts that are compared
MOST_SHOWN = 8  # columns with the same note
MOST_MISTAKES = 3  # of a column
MOST_TOTALS = 3  # rows at the end of a file
SAME = 1e-6
TOTAL = re.compile(
    r"((grand|sub|over)[ -]?(all )?)?"
    r"(total|sum|average|mean|moyenne|summe|gesamt|durchschnitt|mittelwert)([ :].*|s|summe)?",
    re.IGNORECASE,
)
MOST_ALIKE = 3  # groups of values that differ only by case


def notes_of(contents: Contents, guesses: Sequence[Guess], label: LabelGuess) -> list[str]:
    """Return the notes on the columns of a table and on its rows."""
    remarks = [f"read as {label.declaration}: {label.seen}"] if label.is_said else []
    remarks += _on_values(contents, label.column, label.kind)
    notes = [f"{label.column.name}: {note}" for note in remarks]
    columns = [label.column, *(guess.column for guess in guesses if guess.role == FEATURE)]
    notes += shared((guess, note) for guess in guesses for note in _on_guess(contents, guess))
    if contents.num_headers:
        repeated = "repeats" if contents.num_headers == 1 else "repeat"
        notes.append(f"{rows_text(contents.num_headers)} {repeated} the header: left out")
    if contents.ragged:
        notes.append(f"{rows_text(len(contents.ragged))} left out: {contents.ragged[0]}")
    of_columns = (*_blanks(columns), *_perhaps_missing(columns), *_markers(columns))
    return [*notes, *of_columns]


def shared(notes: Iterable[tuple[Guess, str]]) -> list[str]:
    """Return notes on columns, one for all those whose notes differ only by their names."""
    by_text: dict[str, tuple[str, list[str]]] = {}
    for guess, note in notes:
        name = guess.column.name or "the column without a name"
        by_text.setdefault(note.replace(quoted(guess.name), ""), (note, []))[1].append(name)
    return [f"{first_of(names, MOST_SHOWN)}: {note}" for note, names in by_text.values()]


def _blanks(columns: Sequence[Texts]) -> Iterator[str]:
    counts = {own.name: own.reading.num_blank for own in columns if own.reading.num_blank}
    if counts:
        names = first_of([*counts], MOST_SHOWN)
        yield f"{names}: blanks around {sum(counts.values()):,} values are no part of them"


def _perhaps_missing(columns: Sequence[Texts]) -> Iterator[str]:
    by_texts: dict[tuple[str, ...], list[Texts]] = {}
    for column in columns:
        if column.perhaps_missing:
            by_texts.setdefault(tuple(column.perhaps_missing), []).append(column)
    for texts, same in by_texts.items():
        sums = {text: sum(column.perhaps_missing[text] for column in same) for text in texts}
        is_one = len(same) == 1
        shown = (f"{t!r} ({rows_text(n) if is_one else f'{n:,} values'})" for t, n in sums.items())
        yield (
            f"{first_of([column.name for column in same], MOST_SHOWN)}: perhaps missing:"
            f" {', '.join(shown)}; if so, add missing={literal(texts)} to"
            f" {'its declaration' if is_one else 'their declarations'} in workload.py"
        )


def _markers(columns: Sequence[Texts]) -> Iterator[str]:
    by_marker: dict[str, list[str]] = {}
    for column in columns:
        for text, count in column.reading.markers.items():
            by_marker.setdefault(text, []).append(f"{column.name} ({rows_text(count)})")
    for text, shown in by_marker.items():
        yield (
            f"{text!r} is read as missing in {first_of(shown, MOST_SHOWN)}; if that is wrong,"
            " change missing in workload.py"
        )


def _on_guess(contents: Contents, guess: Guess) -> Iterator[str]:
    if guess.role == KEY:
        change = f"; to make it one, declare it, as {guess.declaration}, and remove key"
        yield f"the key, which is no feature: {guess.seen}{change if guess.kind else ''}"
    elif guess.role == GROUP:
        yield f"no feature, but group_by: rows of a value are in the same split: {guess.seen}"
    elif normal_form(guess.column.name) in INDEX_NAMES:
        yield f"left out: {guess.seen}; to keep it, give it another name in the file"
    elif guess.role != FEATURE:
        alias = f"{quoted(guess.column.name)}: {quoted(guess.name)}"
        add = f", add aliases={{{alias}}}" if guess.column.needs_alias else ""
        declaration = guess.declaration if guess.kind else call("Category", guess.name)
        keep = (
            f"; to keep it, declare it in workload.py, as {declaration}{add}, and remove it from"
            " ignored"
        )
        yield f"left out: {guess.seen}{'' if guess.column.facts.unusable else keep}"
    else:
        if guess.is_said or guess.column.facts.num_infinite:
            yield f"read as {guess.declaration}: {guess.seen}"
        yield from _on_values(contents, guess.column, guess.kind)


def _on_values(contents: Contents, column: Texts, kind: str) -> Iterator[str]:
    reading = column.reading
    form = reading.numbers
    if form is not None and not form.is_plain and kind in ("Number", REGRESSION):
        texts = (
            text for text, _ in column.ranked if Written().number_of(text) != form.number_of(text)
        )
        text = next(texts, column.ranked[0][0])
        yield (
            f"{text!r} is read as {form.number_of(text):.15g}; if that is wrong, change written or"
            " signs in workload.py"
        )
    mistakes = [] if kind == "Category" else [*reading.odd]
    for text in mistakes[:MOST_MISTAKES]:
        yield (
            f"{contents.row_text(reading.odd[text])}: {text!r} {reading.mistake}, so the row is"
            " left out; correct the file"
        )
    if (num_more := len(mistakes) - MOST_MISTAKES) > 0:
        yield f"{num_more} more values like these, whose rows are left out"
