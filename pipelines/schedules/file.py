"""Schedule files (configs/schedules)."""

import datetime
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.settings.patterns import FIRST_YEAR, LAST_YEAR, moment_of
from components.shared.text.yaml_text import Sources, read_mapping, value_text
from pipelines.config.schedule_settings import ScheduleSettings
from pipelines.config.settings import with_settings
from pipelines.errors import with_place
from pipelines.package.registry import is_address
from pipelines.projects.runs import find_run, is_reference, unknown_workload
from trainer import Json
from trainer.config.settings import SettingsError
from trainer.errors import ConfigError, near_path
from vertex_local.rules.cron import Cron, zone_of

NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
SOME = {"cron": "0 0 * * *", "workload": "mnist"}  # in place of wrong ones
MAX_AHEAD = datetime.timedelta(days=50 * 365)  # of a start: a cron that has no time until then ends


@dataclass(frozen=True, kw_only=True)
class ScheduleFile:
    """A schedule file.

    `source` is a workload, or if `is_package` a package's path or address; relative paths start
    from the file's folder. `cron` starts with the time zone, in Vertex AI's form; `settings` are
    KEY=VALUE, with the settings of the trigger, and their places for messages.
    """

    path: Path
    content: ScheduleSettings
    source: str
    cron: str
    settings: Mapping[str, str]
    start: datetime.datetime | None = None
    end: datetime.datetime | None = None

    @property
    def name(self) -> str:
        """Return the schedule's name: `taxi-nightly` for taxi-nightly.yaml."""
        return self.path.stem

    @property
    def is_package(self) -> bool:
        """Return whether the source is a package."""
        return self.content.package is not None

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
        raise ConfigError(f"the folder {folder} with schedules does not exist{near_path(folder)}")
    files, problems = [], list[str]()
    for path in sorted(folder.glob("*.yaml")):
        try:
            files.append(read_schedule(path))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return files


def read_schedule(path: Path) -> ScheduleFile:
    """Return the schedule of a file.

    Raises:
        ConfigError: fields are missing or invalid; names the file, and all of them.
    """
    written, sources = read_mapping(path, example="workload: mnist")
    if not NAME.fullmatch(path.stem):
        raise ConfigError(f"{path}: the file's name before .yaml must match {NAME.pattern}")
    values = {key: value for key, value in written.items() if value is not None}
    problems: list[str] = []
    while True:
        try:
            file = _read(path, values, sources)
            break
        except SettingsError as error:  # the others are checked without these
            problems += error.problems
            wrong = {key.partition(".")[0] for key in error.keys}
            if not wrong & {*values, *SOME}:
                raise ConfigError(*problems) from error
            values = {key: value for key, value in values.items() if key not in wrong}
            values |= {key: value for key, value in SOME.items() if key in wrong}
    if problems and not file.is_package:
        try:
            with_settings(find_run(file.source, folder=path.parent), list(file.settings))
        except ConfigError as error:
            problems += [with_place(problem, file.settings) for problem in error.problems]
    if problems:
        raise ConfigError(*problems)
    return file


def _read(path: Path, values: Json, sources: Sources) -> ScheduleFile:
    try:
        content = ScheduleSettings(**values)
    except SettingsError as error:
        told = (f"{path}: {problem}" for problem in error.problems)
        raise SettingsError(*zip(error.keys, told, strict=True)) from error
    zone = _zone(path, content.time_zone)
    start, end = (_moment(path, key, getattr(content, key), zone) for key in ("start", "end"))
    if start and start > datetime.datetime.now(datetime.UTC) + MAX_AHEAD:
        raise _error(path, "start", f"{content.start} is more than fifty years ahead")
    if start and end and end <= start:
        raise _error(path, "end", f"{content.end} is not after start, {content.start}")
    settings = [
        (prefix + name, value, sources[key, name])
        for key, prefix in (("parameters", ""), ("trigger", "trigger."))
        for name, value in values.get(key, {}).items()
    ]
    return ScheduleFile(
        path=path,
        content=content,
        source=_source(path, content),
        cron=_cron(path, content.cron, zone),
        settings={
            f"{key}={value_text(value, source)}": f"{path}, line {source.line}"
            for key, value, source in settings
        },
        start=start,
        end=end,
    )


def _error(path: Path, field: str, problem: object) -> SettingsError:
    return SettingsError((field, f"{path}: {field}: {problem}"))


def _source(path: Path, content: ScheduleSettings) -> str:
    if workload := content.workload:
        try:
            if not is_reference(workload, folder=path.parent):
                raise unknown_workload(workload)
        except ConfigError as error:
            raise _error(path, "workload", error) from error
        return workload
    address = content.package or ""
    if is_address(address):
        return address
    package = path.parent / address
    if not package.is_file():
        raise _error(
            path,
            "package",
            f"no such file: {package}; trainyard compile writes packages{near_path(package)}",
        )
    return str(package)


def _zone(path: Path, name: str) -> zoneinfo.ZoneInfo:
    try:
        return zone_of(name)
    except ValueError as error:
        raise _error(path, "time_zone", error) from error


def _cron(path: Path, text: str, zone: zoneinfo.ZoneInfo) -> str:
    cron = f"TZ={zone.key} {' '.join(text.split())}"
    try:
        Cron.parse(cron)
    except ValueError as error:
        hint = ", and the time zone in time_zone" if "TZ=" in text else ""
        raise _error(path, "cron", f"{error}{hint}") from error
    return cron


def _moment(
    path: Path, key: str, value: str | None, zone: zoneinfo.ZoneInfo
) -> datetime.datetime | None:
    if value is None:
        return None
    try:
        return moment_of(value, zone=zone)
    except ValueError as error:
        raise _error(
            path,
            key,
            f"{value!r} is not a time from {FIRST_YEAR} to {LAST_YEAR}; write it as 2026-12-31 or"
            " 2026-12-31T06:00",
        ) from error
