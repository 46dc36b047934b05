"""What can be asked of prepare_examples, checked before anything is read."""

import dataclasses
import json
import math
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.drift import THRESHOLDS
from components.prepare_examples.tables.bigquery import build_query
from components.prepare_examples.tfrecords.shards import (
    COMPRESSIONS,
    DEFAULT_NUM_SHARDS,
    DEFAULT_RATIOS,
    check_ratios,
    plan_num_shards,
)
from trainer import paths
from trainer.workloads.taxi_table import TIME_ZONE

SOURCES = ("files", "bigquery")
ROW_FILTERS = ("none", "complete")
LISTS = ("files", "dates", "split_key", "ignore_columns", "beam_options")
TABLE_ONLY = (
    *("schema", "baseline", "drift_thresholds", "block_on", "max_quarantine", "time_zone"),
    *("source", "project", "limit", "dates"),
    *("files", "ratios", "split_key", "row_filter", "ignore_columns"),
)


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """All settings; the second group is for tables (taxi) only.

    Attributes:
        max_examples: for a small run, take only the first examples of each split of images, this
            many in all, in proportion to the splits; of a table, the first rows; 0 takes all.
        trust_files: take the raw files unverified and fetch none; the manifest says so.
        num_shards: files for each split, by name; of a table, `train` is the number for all. What
            is not named follows from the next three (`shards.plan_num_shards`).
        num_workers: replicas that will train; there are never fewer files of train than these.
        parallelism: files that a replica reads at once.
        target_mb: megabytes of raw data to a file.
        compression: `gzip` or `none`.
        schema: a schema.pbtxt to hold the examples against; none infers one from the train split.
        baseline: statistics.json of an earlier run, or its examples folder, to measure drift from.
        drift_thresholds: the distances (l_infinity, jensen_shannon, psi) above which to warn;
            those that are not named keep their defaults.
        block_on: which anomalies end the run: `error`, `warning` (both) or `none`.
        max_quarantine: the share of rows that may be quarantined; more end the run.
        time_zone: whose wall time a time becomes that names another zone; one that names none
            stays as it is.
        beam_options: Beam's own flags, without `--runner` it all runs in this process. Another
            runner's workers must see the raw files and the output folder.
        files: the table's files, CSV (plain or gzipped) or Parquet, as paths or patterns; none
            takes the sample of 15,002 trips.
        source: `files`, or `bigquery` for rows of its public table.
        project: the Google Cloud project that pays for the query.
        limit: rows to ask BigQuery for.
        dates: the first and the last day of the trips to ask for; none asks for all.
        ratios: the share of each split.
        split_key: columns whose hash decides the split; none takes `taxi.default_key`.
        row_filter: `complete` keeps only rows in which no feature is missing.
        ignore_columns: columns of the files that are not the table's, and left out.
    """

    max_examples: int = 0
    trust_files: bool = False
    num_shards: Mapping[str, int] = field(default_factory=dict)
    num_workers: int = 2
    parallelism: int = 2
    target_mb: int = 128
    compression: str = "gzip"
    schema: str = ""
    baseline: str = ""
    drift_thresholds: Mapping[str, float] = field(default_factory=lambda: THRESHOLDS)
    block_on: str = "error"
    max_quarantine: float = 0.05
    time_zone: str = TIME_ZONE
    beam_options: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    source: str = "files"
    project: str = ""
    limit: int = 0
    dates: tuple[str, ...] = ()
    ratios: Mapping[str, float] = field(default_factory=lambda: DEFAULT_RATIOS)
    split_key: tuple[str, ...] = ()
    row_filter: str = "none"
    ignore_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in LISTS:
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        for name in ("num_shards", "ratios", "drift_thresholds"):
            _check_numbers(name, getattr(self, name))
        for name in self.drift_thresholds:
            _check_choice("drift_thresholds", name, tuple(THRESHOLDS))
        for name in ("schema", "baseline"):
            if not isinstance(getattr(self, name), str):
                raise DataError(f"{name} is {getattr(self, name)!r}; it must be a path")
        self._check_source()
        _check_choice("block_on", self.block_on, ("error", "warning", "none"))
        _check_share("max_quarantine", self.max_quarantine)
        _check_time_zone(self.time_zone)
        if not isinstance(self.trust_files, bool):
            raise DataError(f"trust_files is {self.trust_files!r}; it must be true or false")
        _check_choice("compression", self.compression, tuple(COMPRESSIONS))
        _check_choice("row_filter", self.row_filter, ROW_FILTERS)
        if type(self.max_examples) is not int or self.max_examples < 0:
            raise DataError(
                f"max_examples is {self.max_examples!r}; allowed are 0 for all, or more"
            )
        for name in ("num_workers", "parallelism", "target_mb"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise DataError(f"{name} is {value!r}; it must be a whole number, at least 1")
        object.__setattr__(self, "ratios", check_ratios(self.ratios))
        object.__setattr__(self, "drift_thresholds", {**THRESHOLDS, **self.drift_thresholds})

    def _check_source(self) -> None:
        _check_choice("source", self.source, SOURCES)
        wanted = {name: getattr(self, name) for name in ("project", "limit", "dates")}
        if self.source == "bigquery":
            build_query(limit=self.limit, dates=self.dates)
            if not isinstance(self.project, str) or not self.project:
                raise DataError("project is empty; name the Google Cloud project that pays")
            if self.files:
                raise DataError("files and source bigquery exclude each other; leave one out")
        elif any(wanted.values()):
            name = next(name for name, value in wanted.items() if value)
            raise DataError(f"{name} is {wanted[name]!r}; it needs the source bigquery")

    def planned_shards(self, num_bytes: int, *, split: str = "train") -> int:
        """The number of files of a split: as asked for, or as its raw size and the workers ask."""
        if split in self.num_shards:
            return self.num_shards[split]
        if split != "train":
            return max(
                DEFAULT_NUM_SHARDS[split], math.ceil(num_bytes / (self.target_mb * 1_000_000))
            )
        return plan_num_shards(
            num_bytes,
            num_workers=self.num_workers,
            parallelism=self.parallelism,
            target_bytes=self.target_mb * 1_000_000,
        )

    def changed(self) -> dict[str, Any]:
        """Return the settings that are not the defaults; Beam's do not change the examples."""
        default = PrepareOptions()
        names = (f.name for f in dataclasses.fields(self) if f.name != "beam_options")
        return {n: getattr(self, n) for n in names if getattr(self, n) != getattr(default, n)}

    def check_images(self, workload: str) -> None:
        """Refuses what is asked of tables only.

        Raises:
            DataError: names the option.
        """
        default = PrepareOptions()
        for name in TABLE_ONLY:
            if getattr(self, name) != getattr(default, name):
                raise DataError(
                    f"{name} is {getattr(self, name)!r}, but it is for tables such as taxi only; "
                    f"leave it out for {workload}"
                )

    @classmethod
    def from_json(cls, text: str, **more: Any) -> "PrepareOptions":
        """Options of a pipeline's step, from a JSON object, and some given apart.

        Raises:
            DataError: it is none, has an unknown key (names the allowed ones), or a path that is
                relative: a step does not run in the folder in which the run was started.
        """
        try:
            content = json.loads(text or "{}")
        except ValueError as error:
            raise DataError(f"prepare is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise DataError(f"prepare is {text!r}; it must be a JSON object")
        allowed = [f.name for f in dataclasses.fields(cls)]
        for key in content:
            if key not in allowed:
                raise DataError(f"prepare has no {key!r}; allowed are {', '.join(allowed)}")
        options = cls(**{**more, **content})
        for name, addresses in options._addresses().items():
            _check_absolute(name, addresses)
        return options

    def _addresses(self) -> dict[str, tuple[str, ...]]:
        found = {"files": self.files, "schema": (self.schema,), "baseline": (self.baseline,)}
        return {name: tuple(filter(None, given)) for name, given in found.items()}


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts, from one with commas too."""
    items = [item for item in value.split(",") if item] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise DataError(f"{name} is {value!r}; it must be a list of texts")
    return tuple(items)


def _check_absolute(name: str, addresses: tuple[str, ...]) -> None:
    for address in addresses:
        if not (address.startswith("/") or paths.is_bucket_uri(address)):
            raise DataError(
                f"prepare.{name} is {address!r}, a relative path, but a pipeline's step runs in a "
                "folder of its own; give the whole path, or gs://"
            )


def _check_numbers(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(
        isinstance(number, int | float) and not isinstance(number, bool)
        for number in value.values()
    ):
        raise DataError(f"{name} is {value!r}; it must be numbers by name")


def _check_share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DataError(f"{name} is {value!r}; it must be a share from 0 to 1, as 0.05")


def _check_time_zone(name: object) -> None:
    try:
        zoneinfo.ZoneInfo(str(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise DataError(
            f"time_zone is {name!r}; it must be a name such as {TIME_ZONE} or UTC"
        ) from error


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DataError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")
