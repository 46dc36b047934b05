"""Schedule files (configs/schedules)."""

import datetime
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.prepare_examples.settings.patterns import FIRST_YEAR, LAST_YEAR, moment_of
from components.shared.text.yaml_text import read_mapping, value_text
from components.start.trigger import Trigger
from pipelines.package.registry import is_address
from pipelines.projects.runs import FORMS, is_reference, unknown_workload
from trainer import Json
from trainer.config.settings import check, find_setting, setting
from trainer.errors import ConfigError, did_you_mean
from vertex_local.rules.cron import Cron, zone_of

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
MAX_CONCURRENCY = 100
MAX_AHEAD = datetime.timedelta(days=50 * 365)  # of a start: a cron that has no time until then ends
SOURCES = ("workload", "package")
KINDS: dict[str, tuple[type[Any], str]] = {
    "workload": (str, f"one of {FORMS}"),
    "package": (str, "a package file, or a package's address in a repository"),
    "cron": (str, 'five fields in quotes, as "0 3 * * *"'),
    "time_zone": (str, "an IANA time zone, such as Europe/Berlin"),
    "parameters": (dict, "settings by name, such as train.epochs: 5"),
    "trigger": (dict, "conditions by name, such as new_files: true"),
}
OPTIONS = ("max_runs", "concurrency", "queue", "catch_up", "cache", "paused")
KEYS = (*KINDS, *OPTIONS, "start", "end")


@dataclass(frozen=True, kw_only=True)
class ScheduleFile:
    """The content of a schedule file.

    `source` is a workload, or if `is_package` a package's path or address; relative paths start
    from the file's folder. `cron` starts with the time zone, in Vertex AI's form; `settings` are
    KEY=VALUE, with the settings of the trigger, and their places for messages.
    """

    path: Path
    source: str
    cron: str
    time_zone: str = "UTC"
    is_package: bool = False
    settings: Mapping[str, str]
    start: datetime.datetime | None = None
    end: datetime.datetime | None = None
    max_runs: int | None = setting("runs in all", default=None, at_least=1)
    concurrency: int = setting("runs at a time", default=1, at_least=1, at_most=MAX_CONCURRENCY)
    queue: bool = setting("start a run late instead of skipping it", default=False)
    catch_up: bool = setting("start the runs that were missed", default=False)
    cache: bool = setting("reuse outputs of earlier runs", default=True)
    paused: bool | None = setting("start no run", default=None)

    @property
    def name(self) -> str:
        """Return the schedule's name: `taxi-nightly` for taxi-nightly.yaml."""
        return self.path.stem

    @property
    def field(self) -> str:
        """Return the name of the source's field."""
        return "package" if self.is_package else "workload"

    def error(self, field: str, problem: object) -> ConfigError:
        """Return the error for an invalid field."""
        return _error(self.path, field, problem)


def read_schedules(folder: Path) -> list[ScheduleFile]:
    """Return the schedules of a folder, sorted by name.

    Raises:
        ConfigError: there is no such folder, or files are invalid; names each file and field.
    """
    if not folder.is_dir():
        raise ConfigError(f"the folder {folder} with schedules does not exist")
    files, problems = [], []
    for path in sorted(folder.glob("*.yaml")):
        try:
            files.append(read_schedule(path))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n  ".join(problems))
    return files


def read_schedule(path: Path) -> ScheduleFile:
    """Return the schedule of a file.

    Raises:
        ConfigError: a field is missing or invalid; names the file and the field.
    """
    content, sources = read_mapping(path, example="workload: mnist")
    values = {key: value for key, value in content.items() if value is not None}
    if not NAME.fullmatch(path.stem):
        raise ConfigError(f"{path}: the file's name before .yaml must match {NAME.pattern}")
    for key, value in values.items():
        _check(path, key, value)
    zone = _zone(path, values.get("time_zone", "UTC"))
    start, end = (_moment(path, key, values.get(key), zone) for key in ("start", "end"))
    if start and start > datetime.datetime.now(datetime.UTC) + MAX_AHEAD:
        raise _error(path, "start", f"{values['start']} is more than fifty years ahead")
    if start and end and end <= start:
        raise _error(path, "end", f"{values['end']} is not after start, {values['start']}")
    cron = _cron(path, values.get("cron"), zone)
    _check_trigger(path, values.get("trigger", {}))
    settings = [
        (prefix + name, value, sources[key, name])
        for key, prefix in (("parameters", ""), ("trigger", "trigger."))
        for name, value in values.get(key, {}).items()
    ]
    return ScheduleFile(
        path=path,
        source=_source(path, values),
        is_package="package" in values,
        cron=cron,
        time_zone=zone.key,
        settings={
            f"{key}={value_text(value, source)}": f"{path}, line {source.line}"
            for key, value, source in settings
        },
        start=start,
        end=end,
        **{key: values[key] for key in OPTIONS if key in values},
    )


def _error(path: Path, field: str, problem: object) -> ConfigError:
    return ConfigError(f"{path}: {field}: {problem}")


def _check(path: Path, key: Any, value: Any) -> None:
    if key not in KEYS:
        hint = did_you_mean(key, KEYS)
        raise _error(path, key, f"unknown key;{hint} allowed are {', '.join(KEYS)}")
    if key in OPTIONS:
        check(find_setting(ScheduleFile, key), value, name=f"{path}: {key}")
    elif key in KINDS and type(value) is not KINDS[key][0]:
        raise _error(path, key, f"{value!r} is not allowed; write {KINDS[key][1]}")


def _source(path: Path, values: Json) -> str:
    sources = [key for key in SOURCES if key in values]
    if len(sources) != 1:
        raise _error(path, "workload", "give either workload or package")
    if "workload" in values:
        workload = str(values["workload"])
        try:
            if not is_reference(workload, folder=path.parent):
                raise unknown_workload(workload)
        except ConfigError as error:
            raise _error(path, "workload", error) from error
        return workload
    if is_address(values["package"]):
        return str(values["package"])
    package = path.parent / values["package"]
    if not package.is_file():
        raise _error(path, "package", f"no such file: {package}; trainyard compile writes packages")
    return str(package)


def _check_trigger(path: Path, values: Json) -> None:
    try:
        Trigger.from_values(values)
    except ConfigError as error:
        raise _error(path, "trigger", error) from error


def _zone(path: Path, name: str) -> zoneinfo.ZoneInfo:
    try:
        return zone_of(name)
    except ValueError as error:
        raise _error(path, "time_zone", error) from error


def _cron(path: Path, text: str | None, zone: zoneinfo.ZoneInfo) -> str:
    if text is None:
        raise _error(path, "cron", f"missing; write {KINDS['cron'][1]}")
    cron = f"TZ={zone.key} {' '.join(text.split())}"
    try:
        Cron.parse(cron)
    except ValueError as error:
        hint = ", and the time zone in time_zone" if "TZ=" in text else ""
        raise _error(path, "cron", f"{error}{hint}") from error
    return cron


def _moment(path: Path, key: str, value: Any, zone: zoneinfo.ZoneInfo) -> datetime.datetime | None:
    if value is None:
        return None
    try:
        return moment_of(str(value), zone=zone)
    except ValueError as error:
        raise _error(
            path,
            key,
            f"{value!r} is not a time from {FIRST_YEAR} to {LAST_YEAR}; write it as 2026-12-31 or"
            " 2026-12-31T06:00",
        ) from error
