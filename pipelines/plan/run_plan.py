"""Plan of a run: the forecast of its tasks, with reasons, times, price and quota; its texts."""

import datetime
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from components.model_version.decisions import REQUIRED
from components.plan_training.prices import (
    TrainingPrice,
    quota_needed,
    resource_note,
    training_price,
)
from components.run_result.settings import parameters_of
from components.shared.vertex.api import VertexApi
from pipelines.config.run_config import RunConfig
from pipelines.plan.earlier_tasks import EarlierTask, EarlierTasks, LocalCache
from pipelines.plan.forecast import CACHED, DEPENDS, RUNS, SKIPPED, TaskForecast, forecast
from pipelines.plan.foreseen import foreseen, without_registry
from pipelines.plan.reasons import changes, setting_changes
from pipelines.resources.names import duration
from pipelines.resources.table import TextTable
from pipelines.runs.submit import Submission
from trainer import Json

MAX_RUNS = 50  # of the same workload, newest first
TRAINING_TASK = "train"
CONDITIONS = {
    "if-new-data": "only if its trigger finds news in the data",
    "if-train": "only if its trigger finds news in the data",
    "if-new": "only if a new model passes the gate, or is kept as a challenger",
    "if-passed": "only if the model passes the gate",
    "if-known": "only if the model is a version already",
}


@dataclass(frozen=True, kw_only=True)
class PlannedTask:
    """A task of a run before its start: RUNS, CACHED, DEPENDS or SKIPPED, and why.

    `seconds` took its last execution in the run `earlier`, or the run whose output it takes.
    """

    name: str
    state: str
    reason: str
    seconds: float | None
    earlier: str


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The tasks of a run before its start, the price of its training, and the quota it needs.

    A run that surely does not train, or trains on a persistent resource, or is of another
    repository's pipeline, has neither price nor quota.
    """

    run: str
    tasks: tuple[PlannedTask, ...]
    price: TrainingPrice | None = None
    quota: Mapping[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The duration of the tasks that will run for certain, as far as it is known."""
        return sum(task.seconds or 0.0 for task in self.tasks if task.state == RUNS)


def plan_of(api: VertexApi | None, submission: Submission, *, state_dir: Path | None) -> RunPlan:
    """Return the plan of a run; without an API, of what is known without earlier runs.

    `state_dir` has the step cache of this machine's service; None if the cache cannot be read, as
    that of Vertex AI or of a service on another folder: then what has been executed is cached.

    Raises:
        TrainerError: the run would fail at its start: a file is missing.
        VertexError: the earlier runs cannot be read.
    """
    request, config = submission.request, submission.config
    parameters = parameters_of(request)
    has_outputs = LocalCache(state_dir).has if state_dir else lambda _: True
    jobs = earlier_jobs(api, request) if api else ()
    earlier = EarlierTasks(jobs, is_reusable=has_outputs)
    forecasts = forecast(
        request["pipelineSpec"],
        parameters,
        earlier,
        outputs=foreseen(api, run=submission.run, earlier=earlier) if api else without_registry(),
    )
    titles = {task.task: task.name for task in forecasts}
    tasks = tuple(_planned(task, earlier, titles) for task in forecasts)
    training = next((task for task in tasks if task.name == TRAINING_TASK), None)
    if not config or not training or training.state in (CACHED, SKIPPED):
        return RunPlan(run=submission.run, tasks=tasks)
    return RunPlan(
        run=submission.run,
        tasks=tasks,
        price=training_price(config.cluster, training.seconds),
        quota=quota_needed(config.cluster),
    )


def earlier_jobs(api: VertexApi, request: Json) -> Iterator[Json]:
    """Yield the newest runs of a request's pipeline, which a workload has to itself.

    Each is read when it is needed. Runs of other pipelines share no outputs.
    """
    records = api.list_resources(
        "pipelineJobs",
        filter=f'pipeline_name="{request["pipelineSpec"]["pipelineInfo"]["name"]}"',
        orderBy="create_time desc",
        readMask="name",
        pageSize=str(MAX_RUNS),
    )
    for record in itertools.islice(records, MAX_RUNS):
        if job := api.find(record["name"]):  # None: deleted in the meantime
            yield job


def _planned(task: TaskForecast, earlier: EarlierTasks, titles: Mapping[str, str]) -> PlannedTask:
    executed = (before for before in earlier.of(task.task) if not before.is_cached)
    return PlannedTask(
        name=task.name,
        state=task.state,
        reason=_reason(task, titles),
        seconds=next((before.seconds for before in executed), None),
        earlier=task.earlier.run if task.earlier else "",
    )


def _reason(task: TaskForecast, titles: Mapping[str, str]) -> str:
    if task.state in (DEPENDS, SKIPPED):
        return CONDITIONS.get(task.condition, f"only if {task.condition}")
    if not task.can_be_cached:
        return "always runs"
    if task.inputs.unknown:
        sources = [titles.get(name, name) for name in task.inputs.unknown]
        words = f"its inputs come from {', '.join(sources)}"
        if task.earlier and (changed := setting_changes(task, task.earlier)):
            return f"{words}; {'; '.join(changed)} since {_run(task.earlier)}"
        return words
    return _since(task, task.earlier) if task.earlier else "no earlier run has finished it"


def _since(task: TaskForecast, before: EarlierTask) -> str:
    run = _run(before)
    if task.state == CACHED:
        return f"as in {run}"
    changed = "; ".join(changes(task, before))
    if changed:
        return f"{changed} since {run}"
    return f"the cache has no output of {run}" if before.is_over else f"{run} uses its output"


def _run(task: EarlierTask) -> str:
    return f"{task.run} ({ago(task.moment)})"


def ago(moment: datetime.datetime) -> str:
    """Return the time since a moment: `3m ago`."""
    return f"{duration((datetime.datetime.now(datetime.UTC) - moment).total_seconds())} ago"


UPLOAD = "upload-model"


def tasks_of(plan: RunPlan) -> TextTable:
    """Return a row for each task."""
    rows: list[tuple[str, ...]] = [
        (task.name, task.state, _seconds(task.seconds, task.state), task.reason)
        for task in plan.tasks
    ]
    return TextTable(("TASK", "", "SECONDS", "WHY"), rows)


def facts_of(plan: RunPlan, *, location: str, config: RunConfig | None) -> Iterator[str]:
    """Yield lines: time, price, quota, and what the run will leave."""
    executed = [task for task in plan.tasks if task.state == RUNS]
    new = [task.name for task in executed if task.seconds is None]
    known = f"about {plan.seconds:.0f} s, as in earlier runs" if len(new) < len(executed) else ""
    unknown = f"{', '.join(new)}: no earlier run tells" if new else ""
    yield f"time      {'; '.join(filter(None, [known, unknown]))}"
    if note := config and resource_note(config.cluster):
        yield f"price     training on Vertex AI: {note}"
    if plan.price:
        yield f"price     {_price(plan.price)}"
    if plan.quota:
        needed = ", ".join(f"{name} {count}" for name, count in plan.quota.items())
        yield f"quota     on Vertex AI in {location}: {needed}"
    if config and any(task.name == UPLOAD and task.state == SKIPPED for task in plan.tasks):
        yield "leaves    no new version"
    elif config:
        yield f"leaves    {left_by(config)}"


def summary_of(plan: RunPlan) -> str:
    """Return a line: which tasks are cached, and why the first of the others is not."""
    cached = [task.name for task in plan.tasks if task.state == CACHED]
    changed = next(
        (task for task in plan.tasks if task.state == RUNS and " since " in task.reason), None
    )
    words = [f"cached: {', '.join(cached)}"] if cached else []
    words += [f"{changed.name} runs: {changed.reason}"] if changed else []
    return "; ".join(words)


def left_by(config: RunConfig) -> str:
    """Return what a run leaves: a version of the model, and whether it is served."""
    release = config.release
    model = f"a version of {config.model_name}"
    if not release.promote:
        return "no version (release.promote=false)"
    if release.approval == REQUIRED:
        return f"{model} that waits for `trainyard models approve`, if it passes the gate"
    kept = "stays" if config.keep_endpoint else "stays only if it served before this run"
    return (
        f"{model}, if it passes the gate and is new: its default version; endpoint"
        f" {config.endpoint_name} {kept}"
    )


def plan_json(plan: RunPlan, *, location: str) -> Json:
    """Return the plan as JSON; the location is that of the quota."""
    return {
        "run": plan.run,
        "location": location,
        "tasks": [asdict(task) for task in plan.tasks],
        "seconds": plan.seconds,
        "price": asdict(plan.price) if plan.price else None,
        "quota": dict(plan.quota),
    }


def _seconds(seconds: float | None, state: str) -> str:
    return "" if seconds is None or state in (CACHED, SKIPPED) else f"{seconds:.1f}"


def _price(price: TrainingPrice) -> str:
    if price.cost.unknown:
        return f"unknown: no price of {', '.join(price.cost.unknown)}"
    expected = "" if price.expected is None else f"about {dollars(price.expected)}, "
    return (
        f"training on Vertex AI: {expected}at most {dollars(price.most)} by its time limit"
        f" ({price.kind}, {price.table})"
    )


def dollars(amount: float) -> str:
    """Return an amount of money: `$12.30`, `$0.004`."""
    return f"${amount:.2f}" if round(amount, 2) >= 0.1 else f"${amount:.1g}"  # noqa: PLR2004
