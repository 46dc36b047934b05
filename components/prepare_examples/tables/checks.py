"""Checks of the examples of a table or of records: no empty split, and a label to learn."""

from collections.abc import Mapping
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.output.quarantine import by_column
from components.prepare_examples.split_rule import SplitRule
from components.prepare_examples.tables.values.labels import binary_text
from trainer import Json
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel

MOST_SHOWN = 5  # values of a label in an error


def check_splits(splits: Json, rule: SplitRule, what: str = "rows") -> None:
    """Raise DataError if a split has no examples."""
    for name, split in splits.items():
        if split["num_examples"]:
            continue
        starts = ", ".join(f"{part} from {day}" for part, day in rule.moments.items())
        if name in rule.named:
            raise DataError(
                f"the {name} split would be empty: the split is {rule.words}"
                f"{f' ({starts})' * bool(starts)}, and no {what} are in it; change prepare.split"
            )
        raise DataError(
            f"the {name} split would be empty: the hash of {rule.hashed} puts no {what} into it;"
            f" use more {what}, other ratios or a finer split_key"
        )


def check_label(
    statistics: Mapping[str, Json],
    values: Mapping[str, int],
    label: Label,
    *,
    quarantined: Mapping[str, int],
) -> None:
    """Check that the label has several values, and that the train split has each class.

    Args:
        statistics: the features of each split.
        values: the number of rows with each value of a binary label's column, as read.
        label: the label.
        quarantined: the number of quarantined rows of each column.

    Raises:
        DataError: it has not; names the values.
    """
    by_split = {split: features[label.name] for split, features in statistics.items()}
    train = by_split["train"]
    if isinstance(label, Multilabel) and not train["num_unique"]:
        raise DataError(f"no row of the train split has a label in {label.name}")
    if not isinstance(label, Multilabel) and train["num_unique"] == 1:
        value, count = train["top_values"][0]
        reason = f"{label.name} is {value} in all {count:,} rows of the train split"
        if isinstance(label, Binary) and values:
            reason += (
                f": it is 1 where the column is positive={label.positive!r}, and the files have"
                f" {ranked_values(values)}"
            )
            is_elsewhere = binary_text(str(label.positive), label.positive) in values
            reason += (
                "; use more rows of the rarer one, which is in the other splits, or other ratios"
                if is_elsewhere and len(values) > 1
                else f"; declare Binary({label.name!r}, positive=…) with another value"
            )
        if quarantined:
            reason += (
                f". Rows with other values may be among the {sum(quarantined.values()):,} that were"
                f" quarantined ({by_column(quarantined)}); correct these first"
            )
        raise DataError(reason)
    if not isinstance(label, Classes | Multilabel) or label.values:
        return
    known = {value for value, _ in train["top_values"]}
    for split, feature in by_split.items():
        new = [(value, count) for value, count in feature["top_values"] if value not in known]
        if new:
            value, count = new[0]
            raise DataError(
                f"{label.name} is {value!r} in {count:,} rows of the {split} split, but in none of"
                " the train split, from which the model learns its classes; use more rows of it,"
                " remove them, or declare the label with values=(…)"
            )


def check_binary(values: Mapping[str, int], label: Label, negative: str | None) -> None:
    """Raise DataError if a binary label has more than two values; names them with counts.

    Rows whose value occurs once besides two others are only quarantined.
    """
    if not isinstance(label, Binary) or label.is_one_against_rest:
        return
    counted = [v for v, count in values.items() if count > 1 or negative is None]
    if len(counted) > 2:  # noqa: PLR2004
        raise DataError(
            f"{label.name} has {len(values)} values, and a Binary label two:"
            f" {ranked_values(values)}; correct the files, declare Classes, or say that all"
            " others are negative with is_one_against_rest=True"
        )


def ranked_values(counts: Mapping[str, int]) -> str:
    """Return the most frequent values with their numbers of rows, as a text."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{value!r} ({count:,} rows)" for value, count in ranked[:MOST_SHOWN]]
    return ", ".join([*shown, *(["…"] if len(ranked) > MOST_SHOWN else [])])


def absent_classes(statistics: Mapping[str, Json], label: Label) -> dict[str, list[Any]]:
    """Return the classes of the train split that another split lacks, by split.

    The classes of a binary label are 0 and 1.
    """
    if not isinstance(label, Binary | Classes):
        return {}
    classes = {
        split: {value for value, _ in features[label.name]["top_values"]}
        for split, features in statistics.items()
    }
    absent = {split: classes["train"] - present for split, present in classes.items()}
    return {split: sorted(values) for split, values in absent.items() if values}
