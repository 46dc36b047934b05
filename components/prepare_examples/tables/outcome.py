"""The outcome of preparing a table or records, and the checks of it.

No split is empty, the label can be learned, and few rows are bad.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.prepare_examples.errors import DataError, Refuse
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import (
    Manifest,
    finish_dataset,
)
from components.prepare_examples.parts import PartOptions, row_counts
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.reading.encodings import explained
from components.prepare_examples.tables.values.labels import binary_text
from trainer import Json
from trainer.workloads.declarations.labels import Binary

MOST_SHOWN = 5  # values of a label in an error


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Files that parts have written to a folder, and the merged results of the parts.

    The checks refuse what a run cannot use, or raise DataError where there is nothing to describe.
    `what` names the rows.
    """

    options: PartOptions
    settings: PrepareOptions
    result: Json
    folder: Path
    refuse: Refuse
    what: str = "rows"

    @property
    def labels(self) -> dict[str, Json]:
        """The statistics of the label in each split."""
        name, statistics = self.options.schema.label.name, self.result["statistics"]
        return {split: part["features"][name] for split, part in statistics.items()}

    @property
    def num_bad(self) -> int:
        """The number of quarantined rows."""
        return sum(self.result["tally"]["quarantined"].values())

    @property
    def rows(self) -> Json:
        """The manifest's numbers of rows: those read, and what became of them."""
        return row_counts(self.result["tally"])

    def check_share(self) -> None:
        """Check that no more rows are bad than max_quarantine allows."""
        quarantine.check_share(
            self.result,
            self.folder,
            max_share=self.settings.max_quarantine,
            refuse=self.refuse,
            what=self.what,
            explained=explained,
        )

    def check_splits(self) -> None:
        """Check that each split has examples."""
        rule, what = self.options.rule, self.what
        for name, split in self.result["splits"].items():
            if split["num_examples"]:
                continue
            starts = ", ".join(f"{part} from {day}" for part, day in rule.moments.items())
            if name in rule.named:
                raise DataError(
                    f"the {name} split would be empty: the split is {rule.words}"
                    f"{f' ({starts})' * bool(starts)}, and no {what} are in it; change"
                    " prepare.split"
                )
            raise DataError(
                f"the {name} split would be empty: the hash of {rule.hashed} puts no {what} into"
                f" it; use more {what}, other ratios or a finer split_key"
            )

    def check_label(self) -> None:
        """Check that the label has several values, and that the train split has each class."""
        label, by_split = self.options.schema.label, self.labels
        train = by_split["train"]
        if label.is_list and not train["num_unique"]:
            reason = f"no row of the train split has a label in {label.name}"
            self.refuse(DataError(reason, about=label.name))
        if not label.is_list and train["num_unique"] == 1:
            self.refuse(DataError(self._single_value(*train["top_values"][0]), about=label.name))
        if not label.learns_classes:
            return
        known = {value for value, _ in train["top_values"]}
        for split, feature in by_split.items():
            new = [(value, count) for value, count in feature["top_values"] if value not in known]
            if new:
                value, count = new[0]
                reason = (
                    f"{label.name} is {value!r} in {count:,} rows of the {split} split, but in none"
                    " of the train split, from which the model learns its classes; use more rows of"
                    " it, remove them, or declare the label with values=(…)"
                )
                self.refuse(DataError(reason, about=label.name))

    def _single_value(self, value: Any, count: int) -> str:
        """Return the error for a label with one value in the train split, perhaps by mistake."""
        label, tally = self.options.schema.label, self.result["tally"]
        values, quarantined = tally["labels"], tally["quarantined"]
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
                f". Rows with other values may be among the {self.num_bad:,} that were"
                f" quarantined ({quarantine.by_column(quarantined)}); correct these first"
            )
        return reason

    def absent_classes(self) -> dict[str, list[Any]]:
        """Return the classes of the train split that another split lacks, by split.

        The classes of a binary label are 0 and 1.
        """
        label = self.options.schema.label
        if not label.has_classes:
            return {}
        classes = {
            split: {value for value, _ in feature["top_values"]}
            for split, feature in self.labels.items()
        }
        absent = {split: classes["train"] - present for split, present in classes.items()}
        return {split: sorted(values) for split, values in absent.items() if values}

    def describe(self, *, sources: Sequence[Json], **facts: Any) -> None:
        """Write the files that describe the examples, the manifest, with further facts, last."""
        options, tally, schema = self.options, self.result["tally"], self.options.schema
        manifest = Manifest(
            workload=schema.workload,
            compression=options.compression,
            split_rule=options.rule.words,
            split=options.rule.to_json(tally["outside"]),
            label=f"{schema.label.name}: {schema.label.words}",
            sources=sources,
            settings=self.settings.changed(),
            rows=self.rows,
            quarantine=quarantine.manifest_entry(self.result),
            splits=self.result["splits"],
            **facts,
        )
        statistics = self.result["statistics"]
        finish_dataset(
            manifest, statistics, self.folder, settings=self.settings, refuse=self.refuse
        )


def ranked_values(counts: Mapping[str, int]) -> str:
    """Return the most frequent values with their numbers of rows, as a text."""
    ranked = quarantine.ranked(counts)
    shown = [f"{value!r} ({count:,} rows)" for value, count in ranked[:MOST_SHOWN]]
    return ", ".join([*shown, *(["…"] if len(ranked) > MOST_SHOWN else [])])
