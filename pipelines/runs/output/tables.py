"""Runs, their tasks and schedules as tables and lines of at most 80 columns."""

import json
import re
from collections.abc import Iterable
from typing import Any

from components.evaluate.thresholds import Limit, format_metric, read_limits, with_threshold
from components.model_version.decisions import STOPS
from components.run_result.settings import THRESHOLDS
from components.run_result.summary import (
    GATE_FAILED,
    NO_NEWS,
    SAME_MODEL,
    USER_ERROR_PREFIX,
    Summary,
)
from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import task_views
from pipelines.resources.names import second
from pipelines.resources.table import WIDTH, TextTable, fact_lines, table_lines
from pipelines.runs.facts import changed_settings
from trainer import Json, paths
from trainer.errors import ConfigError

MAX_ERROR_LINES = 12
DIGEST_DIGITS = 12
# A comparison: `auc 0.9461 is 0.0012 better than version 3's 0.9449, surely better by …`.
COMPARED = re.compile(r"(slice .*: )?(?P<metric>\S+) [\d.,]+.* is .* % interval.*")


def runs_table(runs: list[Summary]) -> TextTable:
    """Return a row for each run: outcome, model version, gating metric and time."""
    rows = [
        (run.run, run.outcome, run.model_version or "-", metric_of(run) or "-", moment(run.created))
        for run in runs
    ]
    return TextTable(("RUN", "RESULT", "VERSION", "METRIC", "CREATED"), rows)


def tasks_table(job: Json) -> TextTable:
    """Return a row for each task of a run, in the graph's order."""
    rows = [
        (
            task.name,
            task.state,
            f"{task.seconds:.1f}",
            "cached" if task.is_cached else last_error_line(task.error) or task.note,
        )
        for task in task_views(job)
    ]
    return TextTable(("TASK", "STATE", "SECONDS", ""), rows)


def last_error_line(error: str) -> str:
    """Return the last line of an error, which is the most specific."""
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[-1].strip().removeprefix(USER_ERROR_PREFIX) if lines else ""


def run_lines(run: Summary, job: Json) -> list[str]:
    """Return the facts of a run, a line each, wrapped where they are long."""
    labels, version, project, ended = job.get("labels", {}), run.model_version, "", ""
    if run.outcome == SAME_MODEL:
        version += ", unchanged: the model is the same"
    if run.project_digest:
        project = f"{run.workload} {run.project_digest}"
    if run.ended:
        ended = f"{second(run.ended)} UTC, {run.seconds:.0f} s"
    facts = {
        "run": run.run,
        "result": ": ".join(filter(None, [run.outcome, "; ".join(run.reasons)])),
        "new data": "; ".join(run.news),
        "state": run.state,
        "model version": version,
        **metric_lines(run, sorted(run.metrics)),
        "settings": settings_text(run.settings),
        "data": _digest(run.data_digest),
        "date": second(run.run_time),
        "code": run.code_digest,
        "project": project,
        "schedule": run.schedule,
        "created": f"{second(run.created)} UTC",
        "ended": ended,
        "files": _run_folder(job),
        "package": job.get("templateUri", ""),
        "service account": job.get("serviceAccount", ""),
        "labels": ", ".join(f"{key}={value}" for key, value in labels.items()),
        **{f"warning {n}": text for n, text in enumerate(run.warnings, start=1)},
        "error": _shortened(run.error, rest=f"trainyard runs show {run.run} --summary"),
    }
    return fact_lines(facts)


def _run_folder(job: Json) -> str:
    """Return the folder of a run in its pipeline root; Vertex AI inserts the project's number."""
    root = str(job.get("runtimeConfig", {}).get("gcsOutputDirectory", "")).rstrip("/")
    name = ResourceName.from_name(job["name"])
    between = f"/{name.project}" if paths.is_in_bucket(root) else ""
    return f"{root}{between}/{name.id}" if root else ""


def schedule_lines(schedules: list[tuple[Json, Summary | None]]) -> list[str]:
    """Return at least two lines for each schedule: its last run's outcome, then its settings."""
    headings = ("NAME", "STATE", "RUNS", "RESULT", "VERSION", "ENDED", "NEXT (UTC)", "")
    rows = [(*_schedule_row(*pair), _schedule_details(*pair)) for pair in schedules]
    return table_lines(TextTable(headings, rows), width=WIDTH)


def schedule_facts(schedule: Json, last: Summary | None) -> Json:
    """Return a schedule as JSON, with the `summary.json` of its last run."""
    keys = ("displayName", "state", "cron", "startedRunCount", "maxRunCount", "nextRunTime")
    shown = {key: schedule[key] for key in keys if key in schedule}
    settings = last.settings if last else {}
    return {
        **shown,
        "lastScheduledRunResponse": schedule.get("lastScheduledRunResponse", {}),
        "settings": settings,
        "lastRun": json.loads(last.to_json()) if last else None,
    }


def metric_of(run: Summary) -> str:
    """Return the metric that decided, with its value: `accuracy 0.9871`.

    It is the one with the smallest margin over its threshold, or the gate's, if the comparison
    failed or there is no threshold.
    """
    limits = [limit for limit in limits_of(run) if limit.metric in run.judged]
    closest = min(limits, key=lambda limit: _relative_margin(limit, run), default=None)
    name = _compared_metric(run)
    if closest and (not name or run.outcome != GATE_FAILED or _relative_margin(closest, run) < 0):
        name = closest.metric
    name = name or next((name for name in run.metrics if not name.startswith("num_")), "")
    return f"{name} {format_metric(run.judged[name])}" if name else ""


def _compared_metric(run: Summary) -> str:
    """Return the metric of the gate's comparisons, read from the reasons; "" without one."""
    names = (match["metric"] for match in map(COMPARED.fullmatch, run.reasons) if match)
    return next((name for name in names if name in run.judged), "")


def limits_of(run: Summary) -> tuple[Limit, ...]:
    """Return the limits that a run's thresholds set; () if they are no such thresholds."""
    thresholds: Json = {}
    try:
        for name, value in run.settings.items():
            group, _, key = name.partition(".")
            if group == THRESHOLDS:
                thresholds = with_threshold(thresholds, key, value)
        return read_limits(thresholds)
    except ConfigError:  # of a package from elsewhere
        return ()


def metric_lines(run: Summary, names: Iterable[str]) -> dict[str, str]:
    """Return metrics by folds, if these judge the model, and then on the test split."""
    by_folds, names = run.folds.get("metrics", {}), list(names)
    return {
        **{f"folds {n}": _metric_text(run, n, by_folds[n]) for n in names if n in by_folds},
        **{f"test {n}": _metric_text(run, n, run.metrics[n]) for n in names if n in run.metrics},
    }


def _metric_text(run: Summary, name: str, value: float) -> str:
    """Return a metric, with its limits if they are for this value: `0.9871 (at least 0.985)`."""
    text = f"{value}" if isinstance(value, int) else format_metric(value)
    limits = " and ".join(str(limit) for limit in limits_of(run) if limit.metric == name)
    return f"{text} ({limits})" if limits and value == run.judged[name] else text


def _relative_margin(limit: Limit, run: Summary) -> float:
    return limit.margin(run.judged[limit.metric]) / (abs(limit.value) or 1.0)


def settings_text(settings: Json) -> str:
    """Return the settings that differ from the workload's defaults."""
    changed = changed_settings(settings)
    changed.pop("workload", None)
    names = sorted(changed, key=lambda name: ("." not in name, name))  # groups first
    return ", ".join(f"{name}={shown(changed[name])}" for name in names)


def shown(value: Any) -> str:
    """Return a value in the form that `--set` accepts."""
    return value if isinstance(value, str) else json.dumps(value)


def moment(stamp: str) -> str:
    """Return a UTC time as `11-21 09:30`; "-" for ""."""
    return second(stamp)[5:16] or "-"


def _schedule_row(schedule: Json, last: Summary | None) -> tuple[str, ...]:
    limit = f" of {schedule['maxRunCount']}" if "maxRunCount" in schedule else ""
    return (
        schedule["displayName"],
        schedule["state"],
        f"{schedule.get('startedRunCount', 0)}{limit}",
        last.outcome if last else "-",
        (last.model_version if last else "") or "-",
        moment(last.ended if last else ""),
        moment(schedule.get("nextRunTime", "")),
    )


def _schedule_details(schedule: Json, last: Summary | None) -> str:
    """Return the facts without a column: cron, metric, settings and name of the last run."""
    facts = [schedule["cron"]]
    if last:
        reasons = "; ".join(last.news) if last.outcome == NO_NEWS else ""
        stop = last.stop if last.outcome in STOPS else ""
        facts += [reasons, stop, metric_of(last), settings_text(last.settings), last.run]
    return "; ".join(filter(None, facts))


def _digest(text: str) -> str:
    kind, colon, digits = text.rpartition(":")
    return f"{kind}{colon}{digits[:DIGEST_DIGITS]}"


def _shortened(error: str, *, rest: str) -> str:
    """Return the first line of an error and the last ones; `rest` is the command for the others."""
    first, *lines = error.splitlines() or [""]
    if len(lines) < MAX_ERROR_LINES:
        return error
    num_omitted = len(lines) - MAX_ERROR_LINES + 1
    return "\n".join([first, f"… {num_omitted} more lines: {rest}", *lines[num_omitted:]])
