"""Plan of a run as lines for people and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict

from components.plan_training.prices import TrainingPrice, resource_note
from pipelines.config.run_config import RunConfig
from pipelines.plan.forecast import CACHED, RUNS, SKIPPED
from pipelines.plan.run_plan import RunPlan
from pipelines.resources.table import TextTable
from trainer import Json

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
    if not release.get("promote", True):
        return "no version (release.promote=false)"
    if release.get("approval"):
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
