"""The schedule that a schedule file describes, as the body of a request."""

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from components.prepare_examples.settings.patterns import has_dates
from components.shared.text.json_object import present
from components.shared.vertex.labels import RUN_LABEL, SCHEDULE_LABEL
from pipelines.config.run_config import RunConfig
from pipelines.errors import RegistryError, with_place
from pipelines.package.digests import with_digests
from pipelines.places.target import Target
from pipelines.projects.runs import find_run
from pipelines.runs.submit import compile_package, config_of, configured, plan_run, read_package_of
from pipelines.runs.workload_code import with_code
from pipelines.schedules.file import ScheduleFile
from trainer import Json, paths
from trainer.errors import ConfigError
from vertex_local.rules.cron import Cron

# A Schedule has no labels of its own, so its runs carry them: SCHEDULE_LABEL marks a schedule of
# ours, DIGEST_LABEL is the digest of its run request.
DIGEST_LABEL = "trainyard_schedule_digest"
REQUEST = "createPipelineJobRequest"
NUM_NEXT_RUNS = 3
LATEST_TIME = "9999-12-30T00:00:00Z"
KEEP_ENDPOINT = "keep_endpoint="  # true in schedules, unless the file sets it


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A schedule as its file describes it: the body of the creating request, and its state.

    `is_paused` is None if the file does not say it: then a schedule stays as it is.
    """

    body: Json
    is_paused: bool | None
    catch_up: bool

    @property
    def name(self) -> str:
        """Return the display name, which is the file's name."""
        return str(self.body["displayName"])


def plan_schedule(file: ScheduleFile, *, target: Target, image: str | None = None) -> Wanted:
    """Return the schedule that a file describes, with everything checked that can be checked here.

    Raises:
        ConfigError: a field is invalid; names the file and the field.
    """
    is_remote = paths.is_in_bucket(target.pipeline_root)
    settings, folder = list(file.settings), file.path.parent
    with _errors_of(file, file.field):
        package = read_package_of(file.source, image=image) if file.is_package else None
        config = None if package else find_run(file.source, folder=folder)
    with _errors_of(file, "parameters"):
        if package:
            config = config_of(package, settings=settings, cluster=None)
        elif config:
            config = configured(config, settings=settings, cluster=None)
        if config and not any(setting.startswith(KEEP_ENDPOINT) for setting in settings):
            config = config.replace(keep_endpoint=True)
        if config:
            config = _with_time_zone(config, file.content.time_zone)
    with _errors_of(file, file.field):
        if config:
            config = with_code(config, target, uses_image=is_remote)
        if config and not package:
            workload = config.workload
            package = compile_package(file.source, workload=workload, image=image, folder=folder)
        assert package is not None  # without a package there is a configuration
        if is_remote:
            package = with_digests(package)
    with _errors_of(file, "parameters"):
        planned = plan_run(
            package,
            run=file.name,
            target=target,
            config=config,
            settings=settings,
            use_cache=file.content.cache,
        )
    body = schedule_request(file, planned.request, parent=target.parent)
    return Wanted(body=body, is_paused=file.content.paused, catch_up=file.content.catch_up)


def _with_time_zone(config: RunConfig, name: str) -> RunConfig:
    options = config.prepare_options()
    has_run_dates = bool(options.window) or any(map(has_dates, options.files))
    if not has_run_dates or options.run_time_zone or name == "UTC":
        return config
    return config.replace(prepare=config.prepare.replace(run_time_zone=name))


@contextlib.contextmanager
def _errors_of(file: ScheduleFile, field: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, RegistryError) as error:
        placed = with_place(str(error), file.settings)
        raise (file.error(field, error) if placed == str(error) else ConfigError(placed)) from error


def schedule_request(file: ScheduleFile, run: Json, *, parent: str) -> Json:
    """Return the body of `POST …/schedules`: a Schedule of Vertex AI's REST API.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.schedules
    """
    own = {key: value for key, value in run["labels"].items() if key != RUN_LABEL}
    job = {**run, "displayName": file.name, "labels": {**own, SCHEDULE_LABEL: file.name}}
    digest = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:16]
    job["labels"][DIGEST_LABEL] = digest
    request = {
        "displayName": file.name,
        "cron": file.cron,
        "startTime": _timestamp(file.start),
        "endTime": _timestamp(file.end),
        "maxRunCount": file.content.max_runs and str(file.content.max_runs),
        # The first limits the runs being started, the second the active runs.
        "maxConcurrentRunCount": str(file.content.concurrency),
        "maxConcurrentActiveRunCount": str(file.content.concurrency),
        "allowQueueing": file.content.queue,
        REQUEST: {"parent": parent, "pipelineJob": job},
    }
    return present(request)


def next_runs(schedule: Wanted, *, now: datetime.datetime) -> list[str]:
    """Return the times of the next runs in the schedule's zone: `Sun 2026-11-29 04:30 CET`."""
    if schedule.is_paused:
        return ["none, it is paused"]
    start, end = (
        datetime.datetime.fromisoformat(schedule.body.get(key) or other)
        for key, other in (("startTime", now.isoformat()), ("endTime", LATEST_TIME))
    )
    cron = Cron.parse(schedule.body["cron"])
    moments = islice(cron.after(max(now, start - datetime.timedelta(seconds=1))), NUM_NEXT_RUNS)
    local = (moment.astimezone(cron.zone) for moment in moments if moment <= end)
    shown = [f"{moment:%a %Y-%m-%d %H:%M %Z}" for moment in local]
    return shown or ["none, it has ended"]


def _timestamp(moment: datetime.datetime | None) -> str:
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""
