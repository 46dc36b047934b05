"""Notes of `trainyard new` on a table: each guess that a user may want to change, in one line."""

from collections.abc import Iterable, Iterator, Sequence

from components.prepare_examples.tables.columns import INDEX_NAMES
from components.shared.text.value_text import first_of
from pipelines.projects.literals import call, literal, quoted
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.labels import LabelGuess
from pipelines.projects.starter.texts import FEATURE, GROUP, KEY, Guess, rows_text
from trainer.workloads.declarations.names import normal_form
from trainer.workloads.declarations.written import NEGATIVE, Written

MOST_SHOWN = 8  # columns with the same note
MOST_MISTAKES = 3  # of a column


def notes_of(contents: Contents, guesses: Sequence[Guess], label: LabelGuess) -> Iterator[str]:
    """Yield the notes on the columns of a table and on its rows."""
    columns: list[Guess | LabelGuess] = [label, *guesses]
    yield from shared((column, note) for column in columns for note in _on(contents, column))
    if contents.num_headers:
        repeated = "repeats" if contents.num_headers == 1 else "repeat"
        yield f"{rows_text(contents.num_headers)} {repeated} the header: left out"
    if contents.ragged:
        yield f"{rows_text(len(contents.ragged))} left out: {contents.ragged[0]}"


def shared(notes: Iterable[tuple[Guess | LabelGuess, str]]) -> Iterator[str]:
    """Yield notes on columns, one for all those whose notes differ only by their names."""
    by_text: dict[str, tuple[str, list[str]]] = {}
    for guess, note in notes:
        name = guess.column.name or "the column without a name"
        text = note.replace(quoted(guess.column.declared), "")
        by_text.setdefault(text, (note, []))[1].append(name)
    for note, names in by_text.values():
        yield f"{first_of(names, MOST_SHOWN)}: {note}"


def _on(contents: Contents, guess: Guess | LabelGuess) -> Iterator[str]:
    if isinstance(guess, LabelGuess) or guess.role == FEATURE:
        if guess.is_said or guess.column.facts.num_infinite:
            yield f"read as {guess.declaration}: {guess.seen}"
        yield from _on_values(contents, guess)
    elif guess.role == KEY:
        change = f"; to make it one, declare it, as {guess.declaration}, and remove key"
        yield f"the key, which is no feature: {guess.seen}{change if guess.kind else ''}"
    elif guess.role == GROUP:
        yield f"no feature, but group_by: rows of a value are in the same split: {guess.seen}"
    elif normal_form(guess.column.name) in INDEX_NAMES:
        yield f"left out: {guess.seen}; to keep it, give it another name in the file"
    else:
        alias = f"{quoted(guess.column.name)}: {quoted(guess.name)}"
        add = f", add aliases={{{alias}}}" if guess.column.needs_alias else ""
        declaration = guess.declaration if guess.kind else call("Category", guess.name)
        keep = (
            f"; to keep it, declare it in workload.py, as {declaration}{add}, and remove it from"
            " ignored"
        )
        yield f"left out: {guess.seen}{'' if guess.column.facts.unusable else keep}"


def _on_values(contents: Contents, guess: Guess | LabelGuess) -> Iterator[str]:
    column, reading = guess.column, guess.column.reading
    form = reading.numbers
    if form and not form.is_plain and {"written", "signs"} & column.arguments(guess.kind).keys():
        texts = [text for text, _ in column.ranked]
        text = next((t for t in texts if Written().number_of(t) != form.number_of(t)), texts[0])
        units = [sign for sign in form.signs if sign in form.factors and sign not in NEGATIVE]
        of_units = f", whatever the unit, {' or '.join(units)}" if len(units) > 1 else ""
        yield (
            f"{text!r} is read as {form.number_of(text):.15g}{of_units}; if that is wrong, change"
            " written or signs in workload.py"
        )
    if reading.num_blank:
        yield "blanks around values are no part of them"
    for text in reading.markers:
        yield f"{text!r} is read as missing; if that is wrong, change missing in workload.py"
    if missing := tuple(column.perhaps_missing):
        shown = ", ".join(map(repr, missing))
        yield f"perhaps missing: {shown}; if so, add missing={literal(missing)} in workload.py"
    mistakes = [] if guess.kind == "Category" else [*reading.odd]
    for text in mistakes[:MOST_MISTAKES]:
        yield (
            f"{contents.row_text(reading.odd[text])}: {text!r} {reading.mistake}, so the row is"
            " left out; correct the file"
        )
    if (num_more := len(mistakes) - MOST_MISTAKES) > 0:
        yield f"{num_more} more values like these, whose rows are left out"
