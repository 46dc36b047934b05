"""The guess of a label from its column."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.outcome import ranked_values
from components.prepare_examples.tables.values.written import NUMBER_PATTERN
from pipelines.projects.starter.column import (
    LABEL,
    LIST_SEPARATOR,
    MOST_ODD,
    POINT_ZERO,
    TableColumn,
    rows_text,
)
from pipelines.projects.starter.reading import Contents
from trainer.errors import did_you_mean

BINARY, CLASSES, MULTILABEL, REGRESSION = "Binary", "Classes", "Multilabel", "Regression"
MOST_CLASSES = 20  # whole numbers of more values are a regression
MOST_TEXTS = 200
RARE = 20  # rows of a class that may be lacking in the train split
POSITIVE = ("yes", "y", "true", "t", "1", "positive", "pos", "ja", "oui", "si", "sí", "sim")
NO_COLUMN = (
    " (--header a,b,… names the columns of a file whose first line has values; if the first line is"
    " a title, remove the lines above the header)"
)


def guess_label(
    contents: Contents, name: str, *, kind: str = "", positive: str = ""
) -> TableColumn:
    """Return the column of the label with its guess.

    `kind` and the positive class of two are guessed if they are "".

    Raises:
        DataError: there is no such column, it has one value, or it is no label of this kind.
    """
    if name not in contents.names:
        names = [repr(own) if "\n" in own else own for own in contents.names if own]
        hint = did_you_mean(name, contents.names)
        raise DataError(f"--label {name}:{hint} the columns are {', '.join(names)}{NO_COLUMN}")
    if name in contents.lacks:
        raise DataError(f"{contents.lacks[name]} has no label {name!r}; leave the file out")
    column = contents.of(name)
    if type_name := column.unusable or (column.length and f"list of {column.length} numbers"):
        what = "a label is a number, a text or a list of texts"
        raise DataError(f"--label {name}: its type is {type_name}; {what}")
    if column.has_whole_texts:  # 1 and 1.0 are one value
        column = replace(column, texts=pc.replace_substring_regex(column.texts, POINT_ZERO, ""))
        positive = re.sub(POINT_ZERO, "", positive)
    if column.num_unique < 2:  # noqa: PLR2004
        what = f"it is {repr(column.ranked[0]) if column.ranked else 'empty'} in all rows"
        raise DataError(f"--label {name}: {what}, so there is nothing to learn")
    if kind in ("", BINARY):
        column = _without_mistakes(column)
    kind = kind or (BINARY if positive else _kind(column))
    if kind == BINARY:
        _guess_binary(column, positive)
    else:
        {CLASSES: _guess_classes, MULTILABEL: _guess_several, REGRESSION: _guess_number}[kind](
            column
        )
    if column.perhaps_missing:
        column.seen += f"; perhaps missing: {', '.join(map(repr, column.perhaps_missing))}"
    if num_missing := contents.num_rows - len(column.present) - len(column.reading.mistakes):
        without = "without a label" if kind == MULTILABEL else "without it, left out"
        column.seen += f"; {rows_text(num_missing)} {without}"
    return column


def _kind(column: TableColumn) -> str:
    if column.num_unique == 2:  # noqa: PLR2004
        return BINARY
    if column.written is not None:
        return CLASSES if column.is_whole and column.num_unique <= MOST_CLASSES else REGRESSION
    if column.is_list:
        return MULTILABEL
    if column.num_unique > MOST_TEXTS:
        texts = (text for text in column.ranked if not re.fullmatch(NUMBER_PATTERN, text))
        raise DataError(
            f"--label {column.name}: {column.num_unique:,} texts, such as"
            f" {next(texts, column.ranked[0])!r}, are neither classes nor numbers in one form;"
            " correct them, or choose another column"
        )
    return CLASSES


def _without_mistakes(column: TableColumn) -> TableColumn:
    """Return a column of two values without others that occur once."""
    values = [value for value in column.ranked if column.counts[value] > 1]
    once = column.ranked[len(values) :]
    if len(values) != 2 or len(once) > max(1, MOST_ODD * len(column.present)):  # noqa: PLR2004
        return column
    mistakes = dict.fromkeys(once, f"is neither {values[0]!r} nor {values[1]!r}")
    reading = replace(column.reading, mistakes={**column.reading.mistakes, **mistakes})
    return replace(column, reading=reading)


def values_of(column: TableColumn, texts: Sequence[str]) -> tuple[str | int, ...]:
    """Return values of a label: whole numbers, or texts."""
    return tuple(int(float(text)) if column.has_whole_texts else text for text in texts)


def _guess_binary(column: TableColumn, positive: str) -> None:
    values = column.ranked
    if positive and positive not in values:
        raise DataError(f"--positive {positive}: {column.name} has {', '.join(values[:10])}")
    if len(values) > 2:  # noqa: PLR2004
        counts = {value: column.counts[value] for value in values}
        raise DataError(
            f"--label {column.name}: it has {len(values)} values, and a binary label two:"
            f" {ranked_values(counts)}; correct the files, or choose --kind classes"
        )
    known = [value for value in values if value.lower() in POSITIVE]
    known = known if known != ["1"] or {"0", "-1"} & {*values} else []  # not of 1 and 2
    chosen = positive or (known[0] if len(known) == 1 else values[-1])
    is_guessed = not positive and len(known) != 1
    why = "; positive is guessed, the rarer one; to change it, give --positive" * is_guessed
    named = values_of(column, sorted(values, key=chosen.__eq__))
    column.guess(
        LABEL,
        BINARY,
        {"positive": named[1], "names": tuple(map(str, named))},
        seen=f"{chosen} in {column.counts[chosen] / len(column.present):.1%} of the rows{why}",
        is_said=is_guessed,
    )


def _guess_classes(column: TableColumn) -> None:
    is_whole, most = column.has_whole_texts, column.ranked[0]
    values = sorted(column.ranked, key=float if is_whole else None)
    is_listed = len(values) <= MOST_CLASSES or column.counts[column.ranked[-1]] < RARE
    share = column.counts[most] / len(column.present)
    is_said = is_whole and len(values) > 2  # noqa: PLR2004
    why = "; few whole numbers are read as classes; if they are amounts, give --kind regression"
    seen = f"{len(values)} classes; the most frequent is {most} ({share:.1%}){why * is_said}"
    arguments = {"values": values_of(column, values)} if is_listed else {}
    column.guess(LABEL, CLASSES, arguments, seen=seen, is_said=is_said)


def _guess_several(column: TableColumn) -> None:
    texts = "\n".join(column.present.to_pylist())
    separator = max((LIST_SEPARATOR, ";", ","), key=texts.count)
    num_labels = len({*map(str.strip, texts.replace(separator, "\n").split("\n"))})
    seen = f"lists of {num_labels} labels"
    column.guess(LABEL, MULTILABEL, {"separator": separator}, seen=seen)


def _guess_number(column: TableColumn) -> None:
    if not column.written:
        raise DataError(
            f"--label {column.name}: {column.ranked[0]!r} is not a number, as a regression"
            " needs; choose --kind classes, or another column"
        )
    low, high, mean = (column.summary[name] for name in ("min", "max", "mean"))
    column.guess(LABEL, REGRESSION, seen=f"{low:g} to {high:g}, mean {mean:.4g}")
