"""Outcome of writing a table's rows: the checks that a run and a trial make, and the manifest."""

import json
import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import (
    finish_dataset,
    splits_of_entries,
    statistics_of,
)
from components.prepare_examples.output.publish import UNUSED
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.checks import (
    absent_classes,
    check_binary,
    check_label,
    check_splits,
)
from components.prepare_examples.tables.picture_rows import PictureRows
from components.prepare_examples.tables.plan import TablePlan
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.write import TableOptions
from trainer import Json

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableJob:
    """Planned parts, the options of writing them, and the manifest's first fields."""

    table: TablePlan
    options: TableOptions
    header: Json
    settings: PrepareOptions
    pictures: PictureRows | None = None


@dataclass(frozen=True)
class Outcome:
    """Files that a job has written to a folder, and the merged results of its parts.

    The checks raise DataError for what a run refuses.
    """

    job: TableJob
    result: Json
    folder: Path

    @cached_property
    def splits(self) -> Json:
        """The manifest's entries of the splits."""
        return splits_of_entries(self.result["shards"])

    @property
    def num_bad(self) -> int:
        """The number of quarantined rows."""
        return sum(self.result["tally"]["quarantined"].values())

    @property
    def is_above_share(self) -> bool:
        """True if more rows are bad than max_quarantine allows."""
        return quarantine.is_above(self.result, self.job.settings.max_quarantine)

    @property
    def rows(self) -> Json:
        """The manifest's numbers of rows: those read, and what became of them."""
        tally = self.result["tally"]
        more = {
            "unlabelled": tally["unlabelled"],
            "repeated_headers": tally["headers"],
            "repeated_pictures": tally["repeated"],
        }
        return {
            "read": tally["read"],
            "written": tally["written"],
            "quarantined": self.num_bad,
            "filtered": tally["filtered"],
            **{name: count for name, count in more.items() if count},
        }

    def check_values(self) -> None:
        """Check that a binary label has two values."""
        check_binary(self.result["tally"]["labels"], self.job.options.schema.label)

    def check_share(self) -> None:
        """Check that no more rows are bad than max_quarantine allows."""
        max_share = self.job.settings.max_quarantine
        quarantine.check_share(self.result, self.folder, max_share=max_share)

    def check_rows(self) -> None:
        """Check that all planned rows were read, and that examples were written."""
        rows, planned = self.rows, self.job.table.num_rows
        if planned not in {None, rows["read"]}:
            raise DataError(
                f"{planned:,} rows were planned, but {rows['read']:,} read: a file has changed; run"
                " again when no program writes to it"
            )
        if rows["read"] != sum(rows.values()) - rows["read"]:
            raise AssertionError(f"the numbers of rows do not add up: {rows}")
        if rows["written"] == 0:
            raise DataError(_no_rows_message(self.result["tally"], rows, self.job.options))

    def check_splits(self) -> None:
        """Check that each split has examples."""
        check_splits(self.splits, self.job.options.key)

    def check_label(self) -> None:
        """Check that the label has several values, and that the train split has each class."""
        tally, label = self.result["tally"], self.job.options.schema.label
        statistics, quarantined = self.result["statistics"], tally["quarantined"]
        check_label(statistics, tally["labels"], label, quarantined=quarantined)

    def describe(self) -> None:
        """Write the files that describe the examples, the manifest last.

        Raises:
            DataError: there are anomalies that block.
        """
        self._warn()
        options = self.job.options
        manifest = {
            **self.job.header,
            "rows": self.rows,
            "quarantine": quarantine.manifest_entry(self.result),
            **self._unused(),
            **_conversions(self.result["tally"], options.schema),
            "splits": self.splits,
        }
        statistics = statistics_of(
            self.result["statistics"],
            self.splits,
            workload=options.schema.workload,
            names=options.schema.names,
        )
        finish_dataset(manifest, statistics, self.folder, settings=self.job.settings)

    def _unused(self) -> Json:
        """Write the names of the files that no row uses; return the manifest's entry."""
        pictures = self.job.pictures
        if pictures is None or self.job.settings.max_examples or not pictures.unused:
            return {}
        lines = [json.dumps({"file": path, "reason": reason}) for path, reason in pictures.unused]
        (self.folder / UNUSED).write_text("\n".join([*lines, ""]), encoding="utf-8")
        notes = list(pictures.words())
        return {"unused": {"num_files": len(pictures.unused), "file": UNUSED, "notes": notes}}

    def _warn(self) -> None:
        """Log how many rows are left out and why, and which split lacks a class."""
        rows, label = self.rows, self.job.options.schema.label
        if self.num_bad:
            worst = quarantine.worst_columns(self.result, self.folder)
            logger.warning("%d of %d rows were quarantined: %s", self.num_bad, rows["read"], worst)
        if count := rows.get("repeated_headers"):
            logger.warning("%d rows repeat the header of their file and are left out", count)
        if count := rows.get("unlabelled"):
            logger.warning(
                "%d of %d rows have no %s and are left out", count, rows["read"], label.name
            )
        for split, classes in absent_classes(self.result["statistics"], label).items():
            shown = ", ".join(map(str, classes))
            logger.warning("no row of the %s split has the %s %s", split, label.name, shown)


def _no_rows_message(tally: Json, rows: Json, options: TableOptions) -> str:
    schema = options.schema
    if options.period and rows["filtered"]:
        return (
            f"0 of {rows['read']:,} rows have a {options.period}; use other dates, or a longer"
            " window"
        )
    if rows["filtered"]:
        scarcest = max(schema.features, key=lambda name: int(tally["missing"].get(name, 0)))
        missing = tally["missing"][scarcest]
        return (
            f"the row filter 'complete' leaves 0 of {rows['read']:,} rows: it requires every "
            f"feature, and {scarcest} is missing in {missing:,} of them; leave the filter out"
        )
    if not rows["read"]:
        return "the files have headers but no rows"
    if "unlabelled" in rows:
        return (
            f"no row is left of {rows['read']:,}: {rows['unlabelled']:,} have no"
            f" {schema.label.name} and {rows['quarantined']:,} are bad; correct the files, or"
            " declare another label"
        )
    return f"all {rows['read']:,} rows are bad: {quarantine.by_column(tally['quarantined'])}"


def _conversions(tally: Json, schema: TableSchema) -> Json:
    """Return the manifest's entries about values that differ from those in the files."""
    found: Json = {}
    for time in schema.times:
        prefix = f"{time.name} "
        zones = {
            name.removeprefix(prefix): count
            for name, count in tally["zones"].items()
            if name.startswith(prefix)
        }
        if "UTC" in zones and time.time_zone != "UTC":
            logger.warning(
                "%s is labelled UTC and was converted to wall time in %s; if it already holds "
                "local time, as BigQuery's table does, set time_zone=UTC",
                *(time.name, time.time_zone),
            )
    if schema.times:
        is_single = len(schema.times) == 1
        first = f"{schema.times[0].name} "
        found["times"] = {
            "column": ", ".join(time.name for time in schema.times),
            "wall_time_of": ", ".join(dict.fromkeys(time.time_zone for time in schema.times)),
            "rows_converted_from": {
                name.removeprefix(first) if is_single else name: count
                for name, count in tally["zones"].items()
            },
        }
    if schema.parts:
        found["derived"] = {
            "from": ", ".join(dict.fromkeys(part.of for part in schema.parts)),
            "features": [part.name for part in schema.parts],
            "rows_in_which_the_files_differ": tally["differing"],
        }
    return found
