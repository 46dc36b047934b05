"""The guess of a label from its column."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.outcome import ranked_values
from components.prepare_examples.tables.values.written import NUMBER_PATTERN
from pipelines.projects.literals import Source, call
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.forms import MOST_ODD
from pipelines.projects.starter.texts import Texts, rows_text
from pipelines.projects.starter.typed_columns import LIST_SEPARATOR
from trainer import Json
from trainer.errors import did_you_mean

BINARY, CLASSES, MULTILABEL, REGRESSION = "binary", "classes", "multilabel", "regression"
MOST_CLASSES = 20  # whole numbers of more values are a regression
MOST_TEXTS = 200
RARE = 20  # rows of a class that may be lacking in the train split
POINT_ZERO = r"\.0*$"  # of whole numbers
POSITIVE = (
    *("ja", "oui", "si", "sí", "sim", "yes", "y", "true", "t", "1", "positive", "pos", "churned"),
    *("default", "bad", "fraud", "spam", "malignant", "m", "failed", "failure", "left", ">50k"),
    *("high", "good", "survived"),
)
NO_COLUMN = (
    " (--header a,b,… names the columns of a file whose first line has values; if the first line is"
    " a title, remove the lines above the header)"
)


@dataclass(frozen=True)
class LabelGuess:
    """Guess of a label.

    Attributes:
        kind: BINARY, CLASSES, MULTILABEL or REGRESSION.
        arguments: of the declaration, after the name.
        thresholds: that make sense, as YAML.
        is_said: the guess is unusual enough to be said on the terminal.
    """

    column: Texts
    kind: str
    arguments: Json
    seen: str
    thresholds: str
    remark: str
    is_said: bool = False

    @property
    def declaration(self) -> Source:
        """The label's declaration."""
        kind = self.kind.title()
        return call(kind, self.column.declared, **self.arguments, **self.column.arguments(kind))


def guess_label(
    contents: Contents,
    name: str,
    *,
    kind: str = "",
    positive: str = "",
    spellings: Mapping[str, str] | None = None,
) -> LabelGuess:
    """Return the guess of a label.

    `kind` and the positive class of two are guessed if they are "". `spellings` has other texts of
    values.

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
    values, facts = column.values, column.facts
    if type_name := facts.unusable or (facts.length and f"list of {facts.length} numbers"):
        what = "a label is a number, a text or a list of texts"
        raise DataError(f"--label {name}: its type is {type_name}; {what}")
    if column.has_whole_texts:  # 1 and 1.0 are one value
        values = pc.replace_substring_regex(values, POINT_ZERO, "")
        positive = re.sub(POINT_ZERO, "", positive)
    for text, plain in (spellings or {}).items():
        values = pc.if_else(pc.equal(values, text), plain, values)
    column = replace(column, reading=replace(column.reading, values=values))
    if column.num_unique < 2:  # noqa: PLR2004
        value = column.ranked[0][0] if column.ranked else "missing"
        raise DataError(
            f"--label {name}: it is {value!r} in all rows, so there is nothing to learn"
        )
    if kind in ("", BINARY):
        column = _without_mistakes(column)
    chosen = kind or (BINARY if positive else _kind(column))
    makers = {CLASSES: _classes, MULTILABEL: _several, REGRESSION: _number}
    guess = _binary(column, positive) if chosen == BINARY else makers[chosen](column)
    seen = guess.seen
    if spellings:
        texts = ", ".join(map(repr, spellings))
        seen += f"; other spellings in some files: {texts}"
        guess = replace(guess, arguments={**guess.arguments, "spellings": spellings}, is_said=True)
    if column.perhaps_missing:
        seen += f"; perhaps missing: {', '.join(map(repr, column.perhaps_missing))}"
    if num_missing := contents.num_rows - len(column.present) - len(column.reading.odd):
        without = "without a label" if chosen == MULTILABEL else "without it, left out"
        seen += f"; {rows_text(num_missing)} {without}"
    return replace(guess, seen=seen)


def _kind(column: Texts) -> str:
    if column.num_unique == 2:  # noqa: PLR2004
        return BINARY
    if column.numbers is not None:
        return CLASSES if column.is_whole and column.num_unique <= MOST_CLASSES else REGRESSION
    if column.is_list:
        return MULTILABEL
    if column.num_unique > MOST_TEXTS:
        texts = (text for text, _ in column.ranked if not re.fullmatch(NUMBER_PATTERN, text))
        raise DataError(
            f"--label {column.name}: {column.num_unique:,} texts, such as"
            f" {next(texts, column.ranked[0][0])!r}, are neither classes nor numbers in one form;"
            " correct them, or choose another column"
        )
    return CLASSES


def _without_mistakes(column: Texts) -> Texts:
    values = [value for value, count in column.ranked if count > 1]
    once = [value for value, count in column.ranked if count == 1]
    if len(values) != 2 or len(once) > max(1, MOST_ODD * len(column.present)):  # noqa: PLR2004
        return column
    mistake = f"is neither {values[0]!r} nor {values[1]!r}"
    return replace(column, reading=column.reading.without(once, mistake))


def _values(column: Texts, texts: Sequence[str]) -> tuple[str | int, ...]:
    """Return values of a label: whole numbers, or texts."""
    return tuple(int(float(text)) if column.has_whole_texts else text for text in texts)


def _binary(column: Texts, positive: str) -> LabelGuess:
    counts = dict(column.ranked)
    values = [*counts]
    if positive and positive not in values:
        raise DataError(f"--positive {positive}: {column.name} has {', '.join(values[:10])}")
    if len(values) > 2:  # noqa: PLR2004
        raise DataError(
            f"--label {column.name}: it has {len(values)} values, and a binary label two:"
            f" {ranked_values(counts)}; correct the files, or choose --kind classes"
        )
    known = [value for value in values if value.lower() in POSITIVE]
    known = known if known != ["1"] or {"0", "-1"} & {*values} else []  # not of 1 and 2
    chosen = positive or (known[0] if len(known) == 1 else values[-1])
    share = counts[chosen] / len(column.present)
    named = _values(column, sorted(values, key=chosen.__eq__))
    is_guessed = not positive and len(known) != 1
    why = "; positive is guessed, the rarer one; to change it, give --positive" * is_guessed
    return LabelGuess(
        column,
        BINARY,
        {"positive": named[1], "names": tuple(map(str, named))},
        f"{chosen} in {share:.1%} of the rows{why}",
        "{auc: 0.7}",
        f"always the more frequent class: accuracy {max(share, 1 - share):.3f}, auc 0.5",
        is_said=is_guessed,
    )


def _classes(column: Texts) -> LabelGuess:
    is_whole = column.has_whole_texts
    values = sorted((value for value, _ in column.ranked), key=float if is_whole else None)
    is_listed = len(values) <= MOST_CLASSES or column.ranked[-1][1] < RARE
    most, count = column.ranked[0]
    share = count / len(column.present)
    is_said = is_whole and len(values) > 2  # noqa: PLR2004
    why = "; few whole numbers are read as classes; if they are amounts, give --kind regression"
    return LabelGuess(
        column,
        CLASSES,
        {"values": _values(column, values)} if is_listed else {},
        f"{len(values)} classes; the most frequent is {most} ({share:.1%}){why * is_said}",
        "{accuracy: 0.8}",
        f"always the most frequent class: accuracy {share:.3f}",
        is_said=is_said,
    )


def with_classes(guess: LabelGuess, column: Texts, values: Sequence[str]) -> LabelGuess:
    """Return the guess of classes with their values in another order."""
    return replace(guess, arguments={"values": _values(column, values)})


def _several(column: Texts) -> LabelGuess:
    texts = "\n".join(column.present.to_pylist())
    separator = max((LIST_SEPARATOR, ";", ","), key=texts.count)
    num_labels = len({*map(str.strip, texts.replace(separator, "\n").split("\n"))})
    seen = f"lists of {num_labels} labels"
    return LabelGuess(
        column, MULTILABEL, {"separator": separator}, seen, "{auc: 0.7}", "chance: auc 0.5"
    )


def _number(column: Texts) -> LabelGuess:
    if column.numbers is None:
        raise DataError(
            f"--label {column.name}: {column.ranked[0][0]!r} is not a number, as a regression"
            " needs; choose --kind classes, or another column"
        )
    summary = column.summary
    return LabelGuess(
        column,
        REGRESSION,
        {},
        f"{summary['min']:g} to {summary['max']:g}, mean {summary['mean']:.4g}",
        f"{{rmse: {{at_most: {0.8 * summary['std']:.3g}}}}}",
        f"always the mean: rmse {summary['std']:.4g}, r2 0",
    )
