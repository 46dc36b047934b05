"""Settings of prepare_examples, checked before any data is read."""

import datetime
import zoneinfo
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from components.prepare_examples.settings.patterns import (
    FIRST_YEAR,
    LAST_YEAR,
    check_absolute,
    check_pattern,
    moment_of,
)
from components.prepare_examples.statistics.drift import NOTICEABLE
from components.prepare_examples.tfrecords import shards
from components.time_limit import A_DAY_SECONDS
from trainer.config.settings import (
    MOST,
    MOST_SECONDS,
    Line,
    Settings,
    Texts,
    read_mapping,
    schema_at,
    setting,
)
from trainer.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from trainer.workloads.declarations.split import Split

PREVIOUS = "previous"  # the baseline that is the promoted version's data


class CheckOptions(Settings):
    """Checks of the examples."""

    schema_file: Line = setting(
        "a schema.pbtxt to validate the examples against; default: infer one from the train split",
        default="",
        alias="schema",
    )
    baseline: Line = setting(
        "statistics.json or the examples folder of an earlier run, to measure drift from; in a"
        " pipeline, previous stands for the data of the promoted version",
        default="",
    )
    drift_threshold: float = setting(
        "population stability index of a feature above which drift is an anomaly",
        default=NOTICEABLE,
        ge=0,
        le=MOST,
    )
    block_on: Literal["error", "warning", "none"] = setting(
        "the anomalies that fail the run: error, warning (both kinds) or none",
        default="error",
    )
    max_quarantine: float = setting(
        "share of the rows that may be quarantined; more fail the run",
        default=0.05,
        ge=0,
        le=1,
    )


class TableOptions(Settings):
    """Tables."""

    files: Texts = setting(
        "CSV, gzipped CSV or Parquet files, a folder of images or TFRecords, a path or a pattern,"
        " instead of the workload's own source. {run_date:%Y-%m-%d} stands for"
        " the date of the run, {run_date-1d:%Y-%m-%d} for the day before. {train: …, test: …} gives"
        " the files of each split",
        default=(),
    )
    time_zone: Line = setting(
        "time zone whose local time is stored for a time that names a zone; default: as declared;"
        " UTC for exports of BigQuery tables that label local time as UTC",
        default="",
    )
    ratios: Annotated[Mapping[str, float], BeforeValidator(read_mapping)] = setting(
        "share of each split", default=shards.DEFAULT_RATIOS
    )
    split: Annotated[Mapping[str, Any], BeforeValidator(read_mapping)] = setting(
        "rule of the splits, instead of the workload's: {by: COLUMN, eval: 30d, test: 30d} by time,"
        " {by: COLUMN, test: [VALUE, …]} by values, {by: hash}",
        default_factory=dict,
    )
    split_key: Texts = setting(
        "columns whose hash decides the split, and whose rows stay together in one by time;"
        " default: the workload's key, or without it its group_by columns, or else all values of a"
        " row",
        default=(),
    )
    ignore_columns: Texts = setting(
        "columns of your files to skip, if the workload does not have them; * and ? are allowed",
        default=(),
    )


class BigQueryOptions(Settings):
    """BigQuery.

    Rows of the table that the workload declares, cached in --data-dir. Not yet tested against the
    real service.
    """

    source: Literal["files", "bigquery"] = setting("where the rows come from", default="files")
    project: Line = setting("Google Cloud project that is billed for the query", default="")
    limit: int = setting("number of rows", default=0, ge=0, le=10**12)


class DateOptions(Settings):
    """Dates of a run.

    A run of a schedule has the date for which it was started, any other the date of its start.
    """

    run_date: Line = setting(
        "the date of the run, such as 2026-11-01, to repeat a run of that date; with a time where"
        " names of files have hours",
        default="",
    )
    run_time_zone: Line = setting(
        "time zone of the date of a run; default: its schedule's, or UTC",
        default="",
    )
    window: Line = setting(
        "days of data, such as 30d or 4w: the files of as many dates, up to the run's;"
        " of files without dates in their names, and of BigQuery, the rows of as many days before"
        " the run's",
        default="",
        pattern=r"[1-9]\d{0,3}[dw]",
        form="a number of days or weeks, such as 30d or 4w",
    )
    dates: Texts = setting("first and last day of a table's rows; default: all", default=())
    time_column: Line = setting(
        "the Timestamp that `dates` and `window` select a table's rows by; default: its only one",
        default="",
    )


_TABLE_ONLY = (CheckOptions, TableOptions, BigQueryOptions, DateOptions)


class SampleOptions(Settings):
    """Examples and files to use; parameters of the pipeline of their own."""

    max_examples: int = setting(
        "use only the first examples of each split of images, N in all, in proportion to the"
        " splits; of a table, the first rows; 0 uses all",
        default=0,
        ge=0,
        le=MOST,
    )
    trust_files: bool = setting(
        "use the raw files in --data-dir without verifying them, and fetch none; the manifest"
        " records it",
        default=False,
    )


class PrepareSettings(CheckOptions, TableOptions, BigQueryOptions, DateOptions):
    """Settings of prepare_examples in a run.

    `num_shards` has the number of files of some splits by name; for a table, `train` is the number
    for every split. `beam_options` are Beam's own flags; another runner's workers must see the raw
    files and the output folder.
    """

    group: ClassVar[str] = "prepare"
    compression: Literal["gzip", "none"] = setting("compression of the output", default="gzip")
    num_shards: Annotated[
        Mapping[str, Annotated[int, Field(ge=1, le=100_000)]], BeforeValidator(read_mapping)
    ] = setting(
        "files of each split, as {train: 8}; of a table, train is the number for every split;"
        " default: by the size of the data",
        default_factory=dict,
    )
    beam_options: Texts = setting(
        "Beam's own flags; a runner's workers must see the raw files and the output folder",
        default=(),
    )
    timeout_seconds: float = setting(
        "time after which the step ends itself as failed",
        default=A_DAY_SECONDS,
        gt=0,
        le=MOST_SECONDS,
    )

    @model_validator(mode="before")
    @classmethod
    def _with_files_by_split(cls, values: Any) -> Any:
        """Return files by split as a rule of the splits."""
        files = values.get("files")
        if not isinstance(files, Mapping):
            return values
        if values.get("split"):
            raise ConfigError(f"split is {values['split']!r}, and files has splits; drop one")
        if not {*files} <= {*shards.SPLITS}:
            raise ConfigError(
                f"files is {dict(files)!r}; it must be a list of texts, or have the files of"
                f" {', '.join(shards.SPLITS)}"
            )
        parts = [part if isinstance(part, list) else [part] for part in files.values()]
        patterns = [pattern for part in parts for pattern in part]
        return {**values, "split": {"by": "files", **files}, "files": patterns}

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_source()
        for name in ("time_zone", "run_time_zone"):
            value = getattr(self, name) or "UTC"
            try:
                zoneinfo.ZoneInfo(value)
            except (KeyError, ValueError, OSError) as error:
                raise ConfigError(
                    f"{name} is {value!r}; it must be a name such as Europe/Paris or UTC"
                ) from error
        self._check_dates()
        shards.check_ratios(self.ratios)
        _ = self.declared_split
        return self

    @property
    def declared_split(self) -> "Split | None":
        """The rule of the splits, None for the workload's."""
        from trainer.workloads.declarations.split import PARTS, Split

        if unknown := [key for key in self.split if key not in ("by", *PARTS)]:
            hint = did_you_mean(unknown[0], ("by", *PARTS))
            raise ConfigError(f"split has no {unknown[0]!r};{hint} it has by, {', '.join(PARTS)}")
        try:
            return Split(**self.split) if self.split else None
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def check_absolute(self) -> None:
        """Raise ConfigError for a relative path: a step does not run in the run's folder."""
        check_absolute("prepare.files", *self.files)
        check_absolute("prepare.schema", self.schema_file)
        if self.baseline != PREVIOUS:
            check_absolute("prepare.baseline", self.baseline)

    def _check_dates(self) -> None:
        for pattern in self.files:
            check_pattern(pattern)
        _check_days(self.dates)
        if self.window and self.dates:
            raise ConfigError(f"window is {self.window!r}, and dates are given too; drop one")
        try:
            moment_of(self.run_date or "2026-01-01", zone=datetime.UTC)
        except ValueError as error:
            raise ConfigError(
                f"run_date is {self.run_date!r}; it must be a date such as 2026-11-01, or a time"
                f" such as 2026-11-01T03:00, from {FIRST_YEAR} to {LAST_YEAR}"
            ) from error

    def _check_source(self) -> None:
        if self.source == "bigquery":
            if self.limit < 1:
                raise ConfigError(f"limit is {self.limit}; BigQuery needs a number of rows")
            if not self.project:
                raise ConfigError("project is empty; name the Google Cloud project that is billed")
            if self.files:
                raise ConfigError(f"files is {self.files!r}, but source is 'bigquery'; drop one")
            return
        for name in ("project", "limit"):
            if value := getattr(self, name):
                raise ConfigError(f"{name} is {value!r}; it needs source to be 'bigquery'")

    def planned_shards(self, num_bytes: int, *, split: str = "train") -> int:
        """Return the number of files of a split with `num_bytes` of raw data."""
        if split in self.num_shards:
            return self.num_shards[split]
        return shards.plan_num_shards(num_bytes, split=split)

    def changed(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, except Beam's own flags."""
        default = PrepareOptions().model_dump()
        return {
            name: value
            for name, value in self.model_dump().items()
            if value != default[name] and name != "beam_options"
        }

    def check_images(self, workload: str, *, allowed: Sequence[str] = ()) -> None:
        """Raise ConfigError for a changed setting that only tables have, except those allowed."""
        changed = self.changed()
        of_tables = [name for kind in _TABLE_ONLY for name in schema_at(kind)["properties"]]
        for name in (name for name in of_tables if name in changed and name not in allowed):
            if name == "dates":
                raise ConfigError(
                    f"dates (or window) are given, but {workload} has no rows with a time; write"
                    " {run_date:…} into the names in prepare.files"
                )
            raise ConfigError(
                f"{name} is {changed[name]!r}, but only tables have it; leave it out for {workload}"
            )


class PrepareOptions(PrepareSettings, SampleOptions):
    """All settings of prepare_examples."""

    @classmethod
    def from_json(cls, text: str, **more: Any) -> Self:
        """Return the options of a pipeline's step, whose paths are absolute."""
        options = super().from_json(text, **more)
        options.check_absolute()
        return options


def _check_days(dates: tuple[str, ...]) -> None:
    try:
        days = [datetime.date.fromisoformat(date) for date in dates]
    except ValueError:
        days = []
    if dates and (len(days) != 2 or not days[0] <= days[1] < datetime.date.max):  # noqa: PLR2004
        raise ConfigError(
            f"dates is {','.join(dates)!r}; it must be the first and last day, such as "
            "2016-01-01,2016-12-31, at most 9999-12-30"
        )
