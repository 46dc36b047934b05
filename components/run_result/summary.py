"""Facts of one run, read from its PipelineJob: the same here and on Vertex AI."""

import datetime
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from components.model_version.decisions import STOPS
from components.run_result.settings import (
    code_digest,
    parameters_of,
    project_digest,
    settings_of,
    shown_workload,
)
from components.shared.text.json_object import numbers, present
from components.shared.vertex.labels import SCHEDULE_LABEL, WAITING, label_of
from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import (
    TaskView,
    below,
    details_in,
    error_of,
    outputs_by_task,
    task_views,
)
from components.start.trigger import NOTHING_NEW
from trainer import Json, paths

SUMMARY_FILE = "summary.json"
STATE_PREFIX = "PIPELINE_STATE_"
INTERRUPTED_PREFIX = "interrupted: "  # of the service's message about a killed run
USER_ERROR_PREFIX = "error: "  # of a step's last line about an error that the user can solve
# Outcomes; the outcome of an unfinished run is its state in lower case.
PROMOTED, SAME_MODEL, SUCCEEDED = "promoted", "same-model", "succeeded"
NO_NEWS = "nothing-new"  # the trigger found nothing new, so the run ended before the training
GATE_FAILED, FAILED = "gate-failed", "failed"
CANCELLED, INTERRUPTED = "cancelled", "interrupted"
GOOD = (PROMOTED, SAME_MODEL, SUCCEEDED, NO_NEWS, *STOPS)
BAD = (GATE_FAILED, FAILED, CANCELLED, INTERRUPTED)
SERVING_OUTPUTS = {"evaluate": "latency", "release-model": "metrics"}  # by task
EXIT_TASK, EXIT_OUTPUT, KNOWN = "teardown", "teardown.summary", "serve-known.Output"
VERDICTS = ("start.verdict", "plan-training.verdict")  # on the data


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Result of one run; `summary.json` has these keys.

    Attributes:
        settings: Values by name, such as `train.epochs`.
        error: Of a step with a user's error, only its line for the user.
        project_digest: Digest of the user's code; "" for a workload of this repository.
        serving: Measurements of the tasks `evaluate` and `release-model`, by task.
        drift: Drift of the examples' features, the largest first.
        evaluation: URI of evaluation.json, everything that a report of the evaluation draws.
        importance: Loss in the metric of the gate without each column, the largest first.
        folds: Number of the folds that judged the model, of their rows, and the metrics on these;
            {} if the test split did.
        run_time: Time of the run's date: when its schedule started it, or its creation.
        news: Reasons of the trigger's verdict: to train, or that there is nothing new.
        stop: Why a model that passed was not promoted: the outcome, a colon and the reason.
    """

    run: str
    state: str
    outcome: str
    workload: str
    schedule: str
    verdict: str
    reasons: tuple[str, ...]
    metrics: dict[str, float]
    model_version: str
    is_new_version: bool
    settings: Json
    data_digest: str
    code_digest: str
    created: str
    ended: str
    tasks: list[Json]
    seconds: float
    error: str = ""
    warnings: tuple[str, ...] = ()
    data_report: str = ""
    data_notes: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    project_digest: str = ""
    evaluation: str = ""
    importance: dict[str, float] = field(default_factory=dict)
    folds: Json = field(default_factory=dict)
    serving: dict[str, dict[str, float]] = field(default_factory=dict)
    run_time: str = ""
    news: tuple[str, ...] = ()
    stop: str = ""

    @property
    def is_final(self) -> bool:
        """True if the run has ended."""
        return self.outcome in (*GOOD, *BAD)

    @property
    def is_good(self) -> bool:
        """True if the run succeeded and passed the gate."""
        return self.outcome in GOOD

    @property
    def judged(self) -> dict[str, float]:
        """The metrics that thresholds are for: on the rows of folds, else on the test split."""
        return {**self.metrics, **self.folds.get("metrics", {})}

    @property
    def failed_task(self) -> str:
        """Name of the first failed task, "" without one."""
        return next((task["name"] for task in self.tasks if task["state"] == "FAILED"), "")

    @property
    def promoted_before(self) -> str:
        """Words for the version that a run promoted before it failed; "" if there is none."""
        if self.outcome not in BAD or not self.is_new_version:
            return ""
        version = self.model_version
        return f"{version} was promoted all the same: it is the default, and serves where deployed"

    @property
    def headline(self) -> str:
        """The result of the run in one line."""
        of_schedule = f" of the schedule {self.schedule}" if self.schedule else ""
        reasons = {GATE_FAILED: self.reasons, NO_NEWS: self.news}.get(self.outcome, ())
        stop = self.stop.partition(": ")[2] if self.outcome in STOPS else ""
        why = "; ".join(reasons) or stop or self.error.partition("\n")[0]
        result = ": ".join(filter(None, [f"{self.run}{of_schedule}", self.outcome, why]))
        return "; ".join(filter(None, [result, self.promoted_before]))

    def to_json(self) -> str:
        """Return the content of `summary.json`."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def to_message(self) -> str:
        """Return the same with `text`, which chat programs show, for a webhook."""
        return json.dumps({"text": self.headline, **asdict(self)})

    def write(self, folder: Path) -> None:
        """Write `FOLDER/summary.json`; outside buckets, link `latest` beside the folder to it."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / SUMMARY_FILE
        temporary = path.with_suffix(f".tmp-{os.getpid()}")
        temporary.write_text(self.to_json(), encoding="utf-8")
        temporary.replace(path)
        if paths.is_in_bucket(folder):
            return
        link = folder.parent / f".latest-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        link.replace(folder.parent / "latest")


def summarize(job: Json, *, run: str = "", exit_metadata: dict[str, str] | None = None) -> Summary:
    """Return the facts of a run.

    `job` is the PipelineJob, as far as it exists. `exit_metadata` is the output of the exit
    task when it summarizes its own run, whose PipelineJob does not have that output yet.
    """
    outputs, parameters = outputs_by_task(job), parameters_of(job)
    if exit_metadata is not None:
        outputs |= {f"{EXIT_OUTPUT}.{key}": value for key, value in exit_metadata.items()}

    def text(name: str) -> str:
        return str(outputs.get(name, ""))

    def lines(*names: str) -> tuple[str, ...]:
        return tuple(line for name in names for line in text(name).splitlines())

    drift = lines("plan-training.drift.drift") or lines("prepare-examples.examples.drift")
    views = task_views(job)
    state = str(job.get("state", f"{STATE_PREFIX}PENDING")).removeprefix(STATE_PREFIX)
    error = error_of(job)
    known, promoted, stop = text(KNOWN), _promoted(outputs), text("evaluate.stop")
    waiting = text("record-version.Output") if stop.startswith(WAITING) else ""
    version = (promoted or known or waiting).partition("@")[2]
    report = text("prepare-examples.examples.report")
    return Summary(
        run=run or ResourceName.from_name(job["name"]).id,
        state=state,
        outcome=_outcome(state, error, outputs),
        workload=shown_workload(parameters.get("workload", "")),
        schedule=label_of(job, SCHEDULE_LABEL),
        verdict=text("evaluate.verdict"),
        reasons=lines("evaluate.reasons"),
        metrics=_numbers(outputs, "evaluate.metrics"),
        model_version=f"{parameters.get('model_name', '')}@{version}" if version else "",
        is_new_version=bool(promoted) and not known,
        settings=settings_of(job),
        data_digest=text("start.fingerprint"),
        code_digest=code_digest(job),
        created=str(job.get("createTime", "")),
        ended=str(job.get("endTime", "")),
        tasks=[
            {"name": v.name, "state": v.state, "seconds": v.seconds, "cached": v.is_cached}
            for v in views
        ],
        seconds=_seconds(job),
        error=_error_for_user(error, views),
        warnings=lines(f"{EXIT_OUTPUT}.warnings"),
        data_report=f"{text('prepare-examples.examples.uri')}/{report}" if report else "",
        data_notes=lines("prepare-examples.examples.notes"),
        drift=drift,
        project_digest=project_digest(job),
        evaluation=text("evaluate.evaluation.uri"),
        importance=json.loads(outputs.get("evaluate.evaluation.importance", "{}")),
        folds=json.loads(outputs.get("evaluate.evaluation.folds", "{}")),
        serving={
            task: measured
            for task, name in SERVING_OUTPUTS.items()
            if (measured := _numbers(outputs, f"{task}.{name}"))
        },
        run_time=text("start.run_time"),
        news=lines("start.reasons", "plan-training.reasons"),
        stop=stop,
    )


def as_ended(
    job: Json, *, state: str, error: str, now: datetime.datetime, has_exit_failed: bool = False
) -> Json:
    """Return the PipelineJob as it will be once its exit task, which calls this, has ended."""
    message = error_of(job)
    if state == "CANCELLED" and message.startswith(INTERRUPTED_PREFIX):
        error = message  # no user cancelled the run: the service stopped
    stamp = now.astimezone(datetime.UTC).isoformat()
    ended = {"state": "FAILED" if has_exit_failed else "SUCCEEDED", "endTime": stamp}
    details = [
        detail | ended if detail.get("state") == "RUNNING" else detail for detail in details_in(job)
    ]
    changes: Json = {
        "state": f"{STATE_PREFIX}{state}",
        "endTime": stamp,
        "jobDetail": {**job.get("jobDetail", {}), "taskDetails": details},
        "error": error and {"message": error},
    }
    return job | present(changes)


def _outcome(state: str, error: str, outputs: Json) -> str:
    if state in ("FAILED", "CANCELLED") and error.startswith(INTERRUPTED_PREFIX):
        return INTERRUPTED
    if state == "FAILED":
        return FAILED
    return _good_outcome(outputs) if state == "SUCCEEDED" else state.lower()


def _good_outcome(outputs: Json) -> str:
    if outputs.get("evaluate.verdict") == "failed":
        return GATE_FAILED
    if NOTHING_NEW in map(outputs.get, VERDICTS):
        return NO_NEWS
    if _promoted(outputs):
        return PROMOTED
    stop = str(outputs.get("evaluate.stop", "")).partition(":")[0]
    if stop in STOPS:
        return stop
    return SAME_MODEL if outputs.get(KNOWN) else SUCCEEDED


def _promoted(outputs: Json) -> str:
    """Return the version that was promoted, by `release-model`, `serve-known` or the teardown.

    `release-model` has no output if it was killed; the teardown completes such a promotion.
    """
    names = ("release-model.Output", "serve-known.promoted", f"{EXIT_OUTPUT}.promoted")
    return str(next(filter(None, map(outputs.get, names)), ""))


def _error_for_user(error: str, views: tuple[TaskView, ...]) -> str:
    """Return the last lines of the failed tasks if all are for the user, else the run's error."""
    failed = [
        (view.name, view.error.rstrip().rpartition("\n")[2])
        for view in views
        if view.state == "FAILED"
    ]
    is_for_user = failed and all(line.startswith(USER_ERROR_PREFIX) for _, line in failed)
    if not is_for_user or error.startswith(INTERRUPTED_PREFIX):
        return error
    return "; ".join(f"{name}: {line.removeprefix(USER_ERROR_PREFIX)}" for name, line in failed)


def _seconds(job: Json) -> float:
    if "createTime" not in job or "endTime" not in job:
        return 0.0
    moments = [datetime.datetime.fromisoformat(job[key]) for key in ("createTime", "endTime")]
    return round((moments[1] - moments[0]).total_seconds(), 2)


def _numbers(outputs: Json, name: str) -> dict[str, float]:
    """Return the metrics of an artifact, with counts as integers; KFP returns them as floats."""
    return {
        name: int(value) if name.startswith("num_") else value
        for name, value in numbers(below(outputs, name)).items()
    }
