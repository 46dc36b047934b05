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


def record(script: Path, contents: Contents, *, label: str, kind: str) -> RecordedScript:
    """Run a script, and check what its fit gets against the table."""
    usable = [
        column
        for column in contents.columns
        if not column.facts.unusable and not column.facts.length
    ]
    columns = {column.declared: column.numbers_or_texts for column in usable}
    told = {
        "originals": {column.declared: column.name for column in usable},
        "is_whole": contents.is_whole,
        # Rows of several files follow each other, as by pandas.concat(…, ignore_index=True).
        "numbers": (contents.rows + 1).tolist()
        if len(contents.paths.unique()) == 1
        else list(range(1, contents.num_rows + 1)),
    }
    return record_table(script, columns, told, label=label, kind=kind)


def as_used(guess: Guess, script: RecordedScript | None) -> Guess:
    """Return the guess of a column as a model of raw values gets it: as it is, or not at all."""
    if script is None:
        return guess
    used = {column["name"]: column for column in script.columns}
    if column := used.get(guess.name):
        is_text = column["is_text"]
        kind = "Number" if not is_text else "Text" if guess.kind == "Text" else "Category"
        is_required = not is_text and not column["is_filled"]
        arguments = {"is_required": True} if is_required else {}
        return replace(guess, role=FEATURE, kind=kind, arguments=arguments, is_said=False)
    is_left_out = guess.role == FEATURE
    seen = f"{script.path.name} does not use it; {guess.seen}" if is_left_out else guess.seen
    return replace(guess, role=IGNORED if is_left_out else guess.role, seen=seen)


def label_of(
    recorded: RecordedScript, contents: Contents, column: Texts, *, positive: str
) -> LabelGuess:
    """Return the label that a script trains on, with its classes in the script's order.

    Raises:
        DataError: `positive`, an option of the command, is not the script's.
    """
    label = recorded.label
    texts = [_text_of(value, column) for value in label.get("values", ())]
    own_kind, own_positive = label["kind"], texts[1] if label["kind"] == BINARY else ""
    if positive not in ("", own_positive):
        raise DataError(
            f"--positive {positive}: {recorded.path.name} trains with {own_positive or 'none'};"
            " omit it, or change the script"
        )
    guess = guess_label(contents, column.name, kind=own_kind, positive=own_positive)
    guess = with_classes(guess, column, texts) if own_kind == CLASSES else guess
    return replace(guess, is_said=False)


def _text_of(value: Any, column: Texts) -> str:
    form = column.reading.numbers
    if form is None or isinstance(value, str):
        return str(value)
    return next(text for text, _ in column.ranked if form.number_of(text) == value)
