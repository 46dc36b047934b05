"""The guess of a label from its column."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from components.prepare_examples.errors import DataError
from components.prepare_examples.tables.outcome import ranked_values
from pipelines.projects.literals import Source, call
from pipelines.projects.starter.columns import Contents
from pipelines.projects.starter.texts import Texts, rows_text
from pipelines.projects.starter.typed_columns import LIST_SEPARATOR
from trainer import Json
from trainer.errors import did_you_mean

BINARY, CLASSES, MULTILABEL, REGRESSION = "binary", "classes", "multilabel", "regression"
POINT_ZERO = r"\.0*$"  # of whole numbers
SEPARATORS = (LIST_SEPARATOR, ";", ",")  # of lists
MOST_CLASSES = 20  # whole numbers of more values are a regression
MOST_TEXTS = 200
FEWEST = 10  # rows of a class to learn it
RARE = 20  # rows of a class that may be lacking in the train split
POSITIVE = (
    *("ja", "oui", "si", "sí", "sim", "yes", "y", "true", "t", "1", "positive", "pos", "churned"),
    *("default", "bad", "fraud", "spam", "malignant", "m", "failed", "failure", "left", ">50k"),
    *("high", "good", "survived"),
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

    def with_spellings(self, spellings: Mapping[str, str]) -> "LabelGuess":
        """Return the guess of a label whose values some files spell in another way."""
        return replace(
            self,
            arguments={**self.arguments, "spellings": spellings},
            seen=f"{self.seen}; other spellings in some files: {', '.join(map(repr, spellings))}",
            is_said=True,
        )


def guess_label(contents: Contents, name: str, *, kind: str = "", positive: str = "") -> LabelGuess:
    """Return the guess of a label.

    `kind` and the positive class of two are guessed if they are "".

    Raises:
        DataError: there is no such column, it has one value, or it is no label of this kind.
    """
    names = contents.names
    if name not in names:
        shown = [repr(own) if "\n" in own else own for own in names if own]
        remedy = " (--header a,b,… names the columns of a file whose first line has values)"
        if any(own.startswith("Unnamed: ") for own in names):
            remedy += "; if the first line is a title, remove the lines above the header"
        hint = did_you_mean(name, names)
        raise DataError(f"--label {name}:{hint} the columns are {', '.join(shown)}{remedy}")
    column = contents.of(name)
    if column.has_whole_texts:  # 1 and 1.0 are one value
        whole = pc.replace_substring_regex(column.values, POINT_ZERO, "")
        column = replace(column, reading=replace(column.reading, values=whole))
        positive = re.sub(POINT_ZERO, "", positive)
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
    if column.perhaps_missing:
        perhaps = ", ".join(map(repr, column.perhaps_missing))
        guess = replace(guess, seen=f"{guess.seen}; perhaps missing: {perhaps}")
    num_missing = contents.num_rows - len(column.present) - len(column.reading.odd)
    if not num_missing:
        return guess
    without = "without a label" if chosen == MULTILABEL else "without it, left out"
    return replace(guess, seen=f"{guess.seen}; {rows_text(num_missing)} {without}")


def _kind(column: Texts) -> str:
    if column.num_unique == 2:  # noqa: PLR2004
        return BINARY
    if column.numbers is not None:
        return CLASSES if column.is_whole and column.num_unique <= MOST_CLASSES else REGRESSION
    if column.is_list:
        return MULTILABEL
    if column.num_unique > MOST_TEXTS:
        raise DataError(
            f"--label {column.name}: {column.num_unique:,} texts are neither classes nor numbers;"
            " choose another column"
        )
    return CLASSES


def _without_mistakes(column: Texts) -> Texts:
    values = [value for value, count in column.ranked if count > 1]
    once = [value for value, count in column.ranked if count == 1]
    if len(values) != 2 or once != column.mistakes(once):  # noqa: PLR2004
        return column
    mistake = f"is neither {values[0]!r} nor {values[1]!r}"
    return replace(column, reading=column.reading.without(once, mistake))


def _values(column: Texts, texts: Iterable[str]) -> tuple[str | int, ...]:
    """Return values of a label: whole numbers, or texts."""
    return tuple(int(float(text)) if column.has_whole_texts else text for text in texts)


def _binary(column: Texts, positive: str) -> LabelGuess:
    values = [value for value, _ in column.ranked]
    if positive and positive not in values:
        raise DataError(f"--positive {positive}: {column.name} has {', '.join(values[:10])}")
    known = [value for value in values if value.strip().lower() in POSITIVE]
    known = known if known != ["1"] or {"0", "-1"} & {*values} else []  # not of 1 and 2
    chosen = positive or (known[0] if len(known) == 1 else values[-1])
    count = dict(column.ranked)[chosen]
    share = count / len(column.present)
    if len(values) > 2:  # noqa: PLR2004
        raise DataError(
            f"--label {column.name}: it has {len(values)} values, and a binary label two:"
            f" {ranked_values(dict(column.ranked))}; correct the files, or choose --kind classes"
        )
    [negative] = [value for value in values if value != chosen]
    named = _values(column, [value.strip() for value in (negative, chosen)])
    why = _rarest(column)
    if not positive and len(known) != 1:
        why = f"; positive is guessed, the rarer one; to change it, give --positive{why}"
    return LabelGuess(
        column,
        BINARY,
        {"positive": named[1], "names": tuple(map(str, named))},
        f"{chosen} in {share:.1%} of the rows{why}",
        "{auc: 0.7}",
        f"always the more frequent class: accuracy {max(share, 1 - share):.3f}, auc 0.5",
        is_said=bool(why),
    )


def _rarest(column: Texts) -> str:
    value, count = column.ranked[-1]
    if count >= FEWEST:
        return ""
    return f"; the rarest is {value!r}, {rows_text(count)}: too few to learn or judge it"


def _classes(column: Texts) -> LabelGuess:
    is_whole = column.has_whole_texts
    values = sorted(column.ranked, key=lambda entry: float(entry[0]) if is_whole else entry[0])
    is_listed = len(values) <= MOST_CLASSES or column.ranked[-1][1] < RARE
    most = column.ranked[0]
    share = most[1] / len(column.present)
    why = ""
    if is_whole and len(values) > 2:  # noqa: PLR2004
        why = "; few whole numbers are read as classes; if they are amounts, give --kind regression"
    why += _rarest(column)
    return LabelGuess(
        column,
        CLASSES,
        {"values": _values(column, (value for value, _ in values))} if is_listed else {},
        f"{column.num_unique} classes; the most frequent is {most[0]} ({share:.1%}){why}",
        "{accuracy: 0.8}",
        f"always the most frequent class: accuracy {share:.3f}",
        is_said=bool(why),
    )


def with_classes(guess: LabelGuess, column: Texts, values: Sequence[str]) -> LabelGuess:
    """Return the guess of classes with their values in another order."""
    return replace(guess, arguments={"values": _values(column, values)})


def _several(column: Texts) -> LabelGuess:
    separator = max(
        SEPARATORS, key=lambda sign: pc.sum(pc.count_substring(column.present, sign)).as_py()
    )
    parts = pc.list_flatten(pc.split_pattern(column.present, separator))
    num_labels = len(pc.utf8_trim_whitespace(parts).unique())
    return LabelGuess(
        column,
        MULTILABEL,
        {"separator": separator},
        f"lists of {num_labels} labels",
        "{auc: 0.7}",
        "chance: auc 0.5",
        is_said=separator != LIST_SEPARATOR,
    )


def _number(column: Texts) -> LabelGuess:
    if column.numbers is None:
        value = next(text for text, _ in column.ranked)
        raise DataError(
            f"--label {column.name}: {value!r} is not a number, as a regression needs; choose"
            " --kind classes, or another column"
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
