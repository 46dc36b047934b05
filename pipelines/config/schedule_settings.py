"""Settings of a schedule file (configs/schedules)."""

from typing import Any, Self

from pydantic import model_validator

from components.start.trigger import Trigger
from trainer.config.settings import MOST, Name, Settings, setting
from trainer.errors import ConfigError


class ScheduleSettings(Settings):
    """The content of a schedule file."""

    workload: Name | None = setting(
        "a built-in workload, a folder with a workload.py, or a package.module", default=None
    )
    package: Name | None = setting(
        "package to run instead of a workload: a file, or its address in a repository", default=None
    )
    cron: Name = setting("times of the runs", form='five fields in quotes, as "0 3 * * *"')
    time_zone: Name = setting("IANA time zone of the times, as Europe/Berlin", default="UTC")
    parameters: dict[str, Any] = setting(
        "settings of the runs", default={}, form="settings by name, as train.epochs: 5"
    )
    trigger: Trigger = setting(
        "conditions of training besides the clock",
        default=Trigger(),
        form="conditions by name, as new_files: true",
    )
    start: Name | None = setting("time before which no run starts, as 2026-12-31", default=None)
    end: Name | None = setting("time after which no run starts, as 2026-12-31T06:00", default=None)
    max_runs: int | None = setting("runs in all", default=None, ge=1, le=MOST)
    concurrency: int = setting("runs at a time", default=1, ge=1, le=100)
    queue: bool = setting("start a run late instead of skipping it", default=False)
    catch_up: bool = setting("start the runs that were missed", default=False)
    cache: bool = setting("reuse outputs of earlier runs", default=True)
    paused: bool | None = setting("start no run", default=None)

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.workload is None) == (self.package is None):
            raise ConfigError("workload: give either workload or package")
        return self
