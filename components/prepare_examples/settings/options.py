"""Settings of prepare_examples, checked before any data is read."""

import datetime
import math
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from components.prepare_examples.settings.patterns import (
    FIRST_YEAR,
    LAST_YEAR,
    check_absolute,
    check_pattern,
    moment_of,
)
from components.prepare_examples.statistics.drift import NOTICEABLE
from components.prepare_examples.tfrecords import shards
from components.shared.text.json_object import Options
from components.time_limit import A_DAY_SECONDS
from trainer.cluster.roles import MAX_REPLICAS
from trainer.config.settings import MOST_SECONDS, check_settings, make_settings, setting
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.workloads.declarations.split import Split

SOURCES = ("files", "bigquery")
TARGET_BYTES = 128_000_000  # of raw data in a file
PREVIOUS = "previous"  # the baseline that is the promoted version's data


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Number of the files."""

    num_workers: int = setting(
        "replicas that will train; train never has fewer files than these",
        default=2,
        at_least=1,
        at_most=MAX_REPLICAS,
    )
    parallelism: int = setting(
        "files that a replica reads at once", default=2, at_least=1, at_most=1000
    )


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Checks of the examples."""

    schema: str = setting(
        "a schema.pbtxt to validate the examples against; default: infer one from the train split",
        default="",
        metavar="FILE",
    )
    baseline: str = setting(
        "statistics.json or the examples folder of an earlier run, to measure drift from; in a"
        " pipeline, previous stands for the data of the promoted version",
        default="",
        metavar="PATH",
    )
    drift_threshold: float = setting(
        "population stability index of a feature above which drift is an anomaly",
        default=NOTICEABLE,
        at_least=0,
        metavar="PSI",
    )
    block_on: str = setting(
        "the anomalies that fail the run: error, warning (both kinds) or none",
        default="error",
        choices=("error", "warning", "none"),
        metavar="SEVERITY",
    )
    max_quarantine: float = setting(
        "share of the rows that may be quarantined; more fail the run",
        default=0.05,
        at_least=0,
        at_most=1,
        metavar="SHARE",
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Tables."""

    files: tuple[str, ...] = setting(
        "CSV, gzipped CSV or Parquet files, a folder of images or TFRecords, a path or a pattern,"
        " instead of the workload's own source; may be repeated. {run_date:%Y-%m-%d} stands for"
        " the date of the run, {run_date-1d:%Y-%m-%d} for the day before. {train: …, test: …} gives"
        " the files of each split",
        default=(),
        metavar="PATTERN",
        is_repeated=True,
    )
    time_zone: str = setting(
        "time zone whose local time is stored for a time that names a zone; default: as declared;"
        " UTC for exports of BigQuery tables that label local time as UTC",
        default="",
        metavar="NAME",
    )
    ratios: Mapping[str, float] = setting(
        "share of each split", factory=lambda: shards.DEFAULT_RATIOS, metavar="SHARES"
    )
    split: Mapping[str, Any] = setting(
        "rule of the splits, instead of the workload's: {by: COLUMN, eval: 30d, test: 30d} by time,"
        " {by: COLUMN, test: [VALUE, …]} by values, {by: hash}",
        factory=dict,
        metavar="RULE",
    )
    split_key: tuple[str, ...] = setting(
        "columns whose hash decides the split, and whose rows stay together in one by time;"
        " default: the workload's key, or without it its group_by columns, or else all values of a"
        " row",
        default=(),
        metavar="COLUMNS",
    )
    ignore_columns: tuple[str, ...] = setting(
        "columns of your files to skip, if the workload does not have them; * and ? are allowed",
        default=(),
        metavar="COLUMNS",
    )


@dataclass(frozen=True, kw_only=True)
class BigQueryOptions:
    """BigQuery.

    Rows of the table that the workload declares, cached in --data-dir. Not yet tested against the
    real service.
    """

    source: str = setting(
        "where the rows come from", default="files", choices=SOURCES, metavar="NAME"
    )
    project: str = setting(
        "Google Cloud project that is billed for the query", default="", metavar="ID"
    )
    limit: int = setting("number of rows", default=0, at_least=0, at_most=10**12)


@dataclass(frozen=True, kw_only=True)
class DateOptions:
    """Dates of a run.

    A run of a schedule has the date for which it was started, any other the date of its start.
    """

    run_date: str = setting(
        "the date of the run, such as 2026-11-01, to repeat a run of that date; with a time where"
        " names of files have hours",
        default="",
        metavar="DATE",
    )
    run_time_zone: str = setting(
        "time zone of the date of a run; default: its schedule's, or UTC",
        default="",
        metavar="NAME",
    )
    window: str = setting(
        "days of data, such as 30d or 4w: the files of as many dates, up to the run's;"
        " of files without dates in their names, and of BigQuery, the rows of as many days before"
        " the run's",
        default="",
        pattern=r"[1-9]\d{0,3}[dw]",
        form="a number of days or weeks, such as 30d or 4w",
        metavar="DAYS",
    )
    dates: tuple[str, ...] = setting(
        "first and last day of a table's rows; default: all", default=(), metavar="FIRST,LAST"
    )
    time_column: str = setting(
        "the Timestamp that `dates` and `window` select a table's rows by; default: its only one",
        default="",
        metavar="NAME",
    )


_TABLE_ONLY = (CheckOptions, TableOptions, BigQueryOptions, DateOptions)


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(
    PlanOptions, CheckOptions, TableOptions, BigQueryOptions, DateOptions, Options
):
    """All settings of prepare_examples.

    `num_shards` has the number of files of some splits by name; for a table, `train` is the number
    for every split. The other splits' numbers follow from PlanOptions. `beam_options` are Beam's
    own flags; another runner's workers must see the raw files and the output folder.
    """

    parameter: ClassVar[str] = "prepare"
    max_examples: int = setting(
        "use only the first examples of each split of images, N in all, in proportion to the"
        " splits; of a table, the first rows; 0 uses all",
        default=0,
        at_least=0,
    )
    trust_files: bool = setting(
        "use the raw files in --data-dir without verifying them, and fetch none; the manifest"
        " records it",
        default=False,
    )
    compression: str = setting(
        "compression of the output",
        default="gzip",
        choices=tuple(shards.COMPRESSIONS),
        metavar="KIND",
    )
    num_shards: Mapping[str, int] = setting(
        "files of each split", factory=dict, has_flag=False, at_least=1, at_most=100_000
    )
    beam_options: tuple[str, ...] = setting("Beam's own flags", default=(), has_flag=False)
    timeout_seconds: float = setting(
        "time after which the step ends itself as failed",
        default=A_DAY_SECONDS,
        above=0,
        at_most=MOST_SECONDS,
        has_flag=False,
    )

    def __post_init__(self) -> None:
        self._set_split()
        check_settings(self)
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
        object.__setattr__(self, "ratios", shards.check_ratios(self.ratios))

    @property
    def declared_split(self) -> "Split | None":
        """The rule of the splits, None for the workload's."""
        from trainer.workloads.declarations.split import Split

        if not self.split or not isinstance(self.split, Mapping):
            return None
        try:
            return make_settings(Split, self.split, name="split")
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def _set_split(self) -> None:
        """Check the rule of the splits; files by split are such a rule, too."""
        files: Any = self.files
        if isinstance(files, Mapping):
            if self.split:
                raise ConfigError(f"split is {self.split!r}, and files has splits; drop one")
            if not {*files} <= {*shards.SPLITS}:
                raise ConfigError(
                    f"files is {dict(files)!r}; it must be a list of texts, or have the files of"
                    f" {', '.join(shards.SPLITS)}"
                )
            parts = [part if isinstance(part, list) else [part] for part in files.values()]
            patterns = [pattern for part in parts for pattern in part]
            object.__setattr__(self, "split", {"by": "files", **files})
            object.__setattr__(self, "files", tuple(patterns))
        if split := self.declared_split:
            object.__setattr__(self, "split", split.to_json())

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
        if split != "train":
            return max(shards.DEFAULT_NUM_SHARDS[split], math.ceil(num_bytes / TARGET_BYTES))
        return shards.plan_num_shards(
            num_bytes,
            num_workers=self.num_workers,
            parallelism=self.parallelism,
            target_bytes=TARGET_BYTES,
        )

    def changed(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, except Beam's own flags."""
        default = PrepareOptions()
        names = (field.name for field in fields(self) if field.name != "beam_options")
        return {n: getattr(self, n) for n in names if getattr(self, n) != getattr(default, n)}

    def check_images(self, workload: str, *, allowed: Sequence[str] = ()) -> None:
        """Raise ConfigError for a changed setting that only tables have, except those allowed."""
        changed = self.changed()
        for field in (field for options in _TABLE_ONLY for field in fields(options)):
            if field.name == "dates" and field.name in changed:
                raise ConfigError(
                    f"dates (or window) are given, but {workload} has no rows with a time; write"
                    " {run_date:…} into the names in prepare.files"
                )
            if field.name in changed and field.name not in allowed:
                raise ConfigError(
                    f"{field.name} is {changed[field.name]!r}, but only tables have it; leave it"
                    f" out for {workload}"
                )

    @classmethod
    def from_values(cls, values: Mapping[str, Any], **more: Any) -> Self:
        """Return the options of a pipeline's step.

        Raises:
            ConfigError: a key is unknown, a value is not allowed, or a path is relative: a step
                does not run in the folder from which the run was started.
        """
        options = super().from_values(values, **more)
        check_absolute("prepare.files", *options.files)
        check_absolute("prepare.schema", options.schema)
        if options.baseline != PREVIOUS:
            check_absolute("prepare.baseline", options.baseline)
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
