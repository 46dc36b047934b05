"""The features and the label of a table as a script that was run uses them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

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
    usable = [one for one in contents.columns if not one.facts.unusable and not one.facts.length]
    columns = {one.declared: one.numbers_or_texts for one in usable}
    originals = {one.declared: one.name for one in usable}
    return record_table(script, columns, originals, label=label.declared)


def as_used(one: Guess, script: RecordedScript | None) -> Guess:
    """Return the guess of a column as a model of raw values gets it: as it is, or not at all."""
    if script is None:
        return one
    if not script.has_columns:
        is_whole = one.kind == "Number" and not one.column.values.null_count
        arguments = ", ".join(filter(None, [one.arguments, "is_required=True"]))
        return replace(one, arguments=arguments) if is_whole else one
    used = {column["name"]: column["is_text"] for column in script.result["columns"]}
    if one.name in used:
        kind = "Number" if not used[one.name] else "Text" if one.kind == "Text" else "Category"
        dropped = "is_required=True" if one.name in script.dropped else ""
        return replace(one, role=FEATURE, kind=kind, arguments=dropped, is_said=False)
    is_left_out = one.role == FEATURE
    seen = f"{script.path.name} does not use it; {one.seen}" if is_left_out else one.seen
    return replace(one, role=IGNORED if is_left_out else one.role, seen=seen)


def label_of(recorded: RecordedScript, contents: Contents, column: Texts) -> LabelGuess:
    """Return the label that a script trains on, with its classes in the script's order."""
    said = recorded.result["label"]
    texts = [_text_of(value, column) for value in said.get("values", ())]
    positive = texts[1] if said["kind"] == BINARY else ""
    guess = guess_label(contents, column.name, kind=said["kind"], positive=positive)
    return with_classes(guess, column, texts) if said["kind"] == CLASSES else guess


def _text_of(value: Any, column: Texts) -> str:
    """Return the file's text of a value of the label."""
    form = column.reading.form
    if form is None or isinstance(value, str):
        return str(value)
    return next(text for text, _ in column.ranked if form.number_of(text) == value)
