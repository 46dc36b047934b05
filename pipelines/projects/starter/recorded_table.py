"""The features and the label of a table as a script that was run uses them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from pipelines.projects.scripts.record import RecordedScript, record_table
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.labels import (
    BINARY,
    CLASSES,
    LabelGuess,
    guess_label,
    with_classes,
)
from pipelines.projects.starter.texts import FEATURE, IGNORED, Guess, Texts


def record(script: Path, contents: Contents, label: Texts) -> RecordedScript:
    """Run a script, and compare the rows that reach its fit with the table's."""
    usable = [
        column
        for column in contents.columns
        if not column.facts.unusable and not column.facts.length
    ]
    columns = {column.declared: column.numbers_or_texts for column in usable}
    originals = {column.declared: column.name for column in usable}
    return record_table(script, columns, originals, label=label.declared)


def as_used(guess: Guess, script: RecordedScript | None) -> Guess:
    """Return the guess of a column as a model of raw values gets it: as it is, or not at all."""
    if script is None:
        return guess
    is_whole = not guess.column.values.null_count
    if not script.has_columns:
        arguments = {**guess.arguments, "is_required": True}
        is_required = guess.kind == "Number" and is_whole
        return replace(guess, arguments=arguments) if is_required else guess
    used = {column["name"]: column for column in script.result["columns"]}
    if column := used.get(guess.name):
        is_text = column["is_text"]
        kind = "Number" if not is_text else "Text" if guess.kind == "Text" else "Category"
        has_no_fill = not is_text and not column["is_filled"]
        is_required = guess.name in script.dropped or (is_whole and has_no_fill)
        arguments = {"is_required": True} if is_required else {}
        return replace(guess, role=FEATURE, kind=kind, arguments=arguments, is_said=False)
    is_left_out = guess.role == FEATURE
    seen = f"{script.path.name} does not use it; {guess.seen}" if is_left_out else guess.seen
    return replace(guess, role=IGNORED if is_left_out else guess.role, seen=seen)


def label_of(
    recorded: RecordedScript, contents: Contents, column: Texts, *, kind: str, positive: str
) -> LabelGuess:
    """Return the label that a script trains on, with its classes in the script's order.

    Raises:
        DataError: `kind` or `positive`, the options of the command, are not the script's.
    """
    label = recorded.result["label"]
    texts = [_text_of(value, column) for value in label.get("values", ())]
    own_kind, own_positive = label["kind"], texts[1] if label["kind"] == BINARY else ""
    for name, option, own in (("kind", kind, own_kind), ("positive", positive, own_positive)):
        if option not in ("", own):
            raise DataError(
                f"--{name} {option}: {recorded.path.name} trains with {own or 'none'}; omit"
                f" --{name}, or change the script"
            )
    guess = guess_label(contents, column.name, kind=own_kind, positive=own_positive)
    guess = with_classes(guess, column, texts) if own_kind == CLASSES else guess
    return replace(guess, is_said=False)


def _text_of(value: Any, column: Texts) -> str:
    form = column.reading.numbers
    if form is None or isinstance(value, str):
        return str(value)
    return next(text for text, _ in column.ranked if form.number_of(text) == value)
