"""The features and the label of a table as a script that was run uses them."""

from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError
from pipelines.projects.scripts.record import RecordedScript
from pipelines.projects.scripts.record import record as record_script
from pipelines.projects.starter.column import FEATURE, IGNORED, TableColumn
from pipelines.projects.starter.labels import BINARY, CLASSES, guess_label, values_of
from pipelines.projects.starter.reading import Contents


def record(script: Path, contents: Contents, *, label: str, kind: str) -> RecordedScript:
    """Run a script, and check what its fit gets against the table."""
    usable = [column for column in contents.columns if not column.unusable and not column.length]
    columns = {
        column.declared: column.numbers if column.written else column.values for column in usable
    }
    told = {
        "label": label,
        "kind": kind,
        "originals": {column.declared: column.name for column in usable},
        "is_whole": contents.is_whole,
        # Rows of several files follow each other, as by pandas.concat(…, ignore_index=True).
        "numbers": [row + 1 for row in contents.rows]
        if contents.num_files == 1
        else list(range(1, contents.num_rows + 1)),
    }
    return record_script(script, told, columns)


def guess_as_used(column: TableColumn, script: RecordedScript) -> None:
    """Change the guess of a column to what a model of raw values gets: the column, or nothing."""
    used = {used["name"]: used for used in script.columns}
    if own := used.get(column.declared):
        is_text = own["is_text"]
        kind = "Number" if not is_text else "Text" if column.kind == "Text" else "Category"
        is_required = not is_text and not own["is_filled"]
        arguments = {"is_required": True} if is_required else {}
        column.guess(FEATURE, kind, arguments, seen=column.seen)
    elif column.role == FEATURE:
        column.role = IGNORED
        column.seen = f"{script.path.name} does not use it; {column.seen}"


def label_of(
    recorded: RecordedScript, contents: Contents, name: str, *, positive: str
) -> TableColumn:
    """Return the label that a script trains on, with its classes in the script's order.

    Raises:
        DataError: `positive`, an option of the command, is not the script's.
    """
    label, column = recorded.label, contents.of(name)
    kind = label["kind"].title()
    texts = [_text_of(value, column) for value in label.get("values", ())]
    own_positive = texts[1] if kind == BINARY else ""
    if positive not in ("", own_positive):
        raise DataError(
            f"--positive {positive}: {recorded.path.name} trains with {own_positive or 'none'};"
            " omit it, or change the script"
        )
    target = guess_label(contents, name, kind=kind, positive=own_positive)
    if kind == CLASSES:
        target.arguments = {"values": values_of(column, texts)}
    target.is_said = False
    return target


def _text_of(value: Any, column: TableColumn) -> str:
    form = column.written
    if form is None or isinstance(value, str):
        return str(value)
    return next(text for text in column.ranked if form.number_of(text) == value)
