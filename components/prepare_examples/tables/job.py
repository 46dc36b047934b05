"""A planned table and its outcome: the checks of what was written, and the manifest."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from components.prepare_examples.beam.options import run_pipeline
from components.prepare_examples.errors import DataError, Refuse, fail
from components.prepare_examples.output import quarantine
from components.prepare_examples.output.manifest import source_entry
from components.prepare_examples.output.publish import UNUSED
from components.prepare_examples.parts import finish
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tables.outcome import Outcome, ranked_values
from components.prepare_examples.tables.picture_rows import PictureRows
from components.prepare_examples.tables.plan import TablePlan
from components.prepare_examples.tables.table_schema import TableSchema
from components.prepare_examples.tables.write import TableOptions, write_part
from trainer import Json
from trainer.workloads.declarations.labels import Binary

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TableJob:
    """Planned parts, the options of writing them, and facts for the manifest."""

    table: TablePlan
    options: TableOptions
    settings: PrepareOptions
    is_verified: bool = False
    split_columns: Sequence[str] | None = None
    query: str | None = None
    pictures: PictureRows | None = None

    def write(self, folder: Path, refuse: Refuse = fail) -> None:
        """Write the shards, statistics and then the manifest; refuse what a run cannot use."""
        result = run_pipeline(
            self.table.parts,
            partial(write_part, options=self.options, output_dir=str(folder)),
            finish,
            folder=folder,
            flags=self.settings.beam_options,
        )
        outcome = TableOutcome(
            job=self,
            options=self.options,
            settings=self.settings,
            result=result,
            folder=folder,
            refuse=refuse,
        )
        outcome.check_values()
        outcome.check_share()
        outcome.check_rows()
        outcome.check_splits()
        outcome.check_label()
        outcome.describe_table()


@dataclass(frozen=True, kw_only=True)
class TableOutcome(Outcome):
    """Outcome of a table, whose rows the plan has counted."""

    job: TableJob
    options: TableOptions

    def check_values(self) -> None:
        """Check that a binary label has two values.

        Rows whose value occurs once besides two others are only quarantined.
        """
        schema, values = self.options.schema, self.result["tally"]["labels"]
        if not isinstance(schema.label, Binary) or schema.label.is_one_against_rest:
            return
        counted = [v for v, count in values.items() if count > 1 or schema.negative is None]
        if len(counted) > 2:  # noqa: PLR2004
            self.refuse(
                DataError(
                    f"{schema.label.name} has {len(values)} values, and a Binary label two:"
                    f" {ranked_values(values)}; correct the files, declare Classes, or say that all"
                    " others are negative with is_one_against_rest=True",
                    about=schema.label.name,
                )
            )

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
            raise DataError(_no_rows_message(self.result["tally"], rows, self.options))

    def describe_table(self) -> None:
        """Write the files that describe the examples, the manifest last."""
        self._warn()
        job = self.job
        self.describe(
            sources=[
                source_entry(Path(path).name, sha256, is_verified=job.is_verified)
                for path, sha256 in job.table.digests.items()
            ],
            split_columns=job.split_columns,
            query=job.query,
            unused=self._unused(),
            times=_times(self.result["tally"], self.options.schema),
        )

    def _unused(self) -> Json | None:
        """Write the names of the files that no row uses; return the manifest's entry."""
        pictures = self.job.pictures
        is_limited = 0 < self.settings.max_examples <= self.rows["read"]
        if pictures is None or is_limited or not pictures.unused:
            return None
        lines = [json.dumps({"file": path, "reason": reason}) for path, reason in pictures.unused]
        (self.folder / UNUSED).write_text("\n".join([*lines, ""]), encoding="utf-8")
        notes = list(pictures.words())
        return {"num_files": len(pictures.unused), "file": UNUSED, "notes": notes}

    def _warn(self) -> None:
        """Log how many rows are left out and why, and which split lacks a class."""
        rows, label = self.rows, self.options.schema.label
        if self.num_bad:
            worst = quarantine.worst_columns(quarantine.manifest_entry(self.result), self.folder)
            logger.warning("%d of %d rows were quarantined: %s", self.num_bad, rows["read"], worst)
        if count := rows.get("repeated_headers"):
            logger.warning("%d rows repeat the header of their file and are left out", count)
        if count := rows.get("unlabelled"):
            logger.warning(
                "%d of %d rows have no %s and are left out", count, rows["read"], label.name
            )
        for split, classes in self.absent_classes().items():
            shown = ", ".join(map(str, classes))
            logger.warning("no row of the %s split has the %s %s", split, label.name, shown)


def _no_rows_message(tally: Json, rows: Json, options: TableOptions) -> str:
    schema = options.schema
    if options.period and rows["filtered"]:
        return (
            f"0 of {rows['read']:,} rows have a {options.period}; use other dates, or a longer"
            " window"
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


def _times(tally: Json, schema: TableSchema) -> Json | None:
    """Return the manifest's entry about times, None without any; warn of a doubtful zone."""
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
    if not schema.times:
        return None
    prefix = f"{schema.times[0].name} " if len(schema.times) == 1 else ""
    return {
        "column": ", ".join(time.name for time in schema.times),
        "wall_time_of": ", ".join(dict.fromkeys(time.time_zone for time in schema.times)),
        "rows_converted_from": {
            name.removeprefix(prefix): count for name, count in tally["zones"].items()
        },
    }
