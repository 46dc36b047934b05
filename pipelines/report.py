"""What a run leaves to read: `summary.json`, and the same as a table."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from pipelines.config import RunConfig
from pipelines.watch import RunView

MOST_DRIFT = 3  # features that a run's end shows
COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "CANCELLED": "yellow"}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of one run; written as `summary.json` with these keys, `seconds` wall clock.

    `data_report`, `data_notes` and `drift`, in words and the largest first, are of the examples.
    """

    run: str
    state: str
    workload: str
    verdict: str
    metrics: dict[str, float]
    model_version: str
    is_new_version: bool
    tasks: list[dict[str, Any]]
    seconds: float
    error: str = ""
    warnings: tuple[str, ...] = ()
    data_report: str = ""
    data_notes: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Writes `FOLDER/summary.json` and points `latest` beside the folder to it."""
        path = folder / "summary.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.__dict__, indent=2) + "\n")
        temporary.replace(path)
        link = folder.parent / f".latest-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        link.replace(folder.parent / "latest")


def summarize(view: RunView, *, run: str, config: RunConfig, seconds: float) -> Summary:
    """Puts a run's last view together."""
    outputs = view.outputs
    evaluated = outputs.get("evaluate", {})
    known = str(outputs.get("serve-known", {}).get("Output", ""))
    promoted = str(outputs.get("promote", {}).get("Output", "")) or known
    return Summary(
        run=run,
        state=view.state.removeprefix("PIPELINE_STATE_"),
        workload=config.workload,
        verdict=str(evaluated.get("verdict", "")),
        metrics=_numbers(evaluated.get("metrics", {})),
        model_version=f"{config.model_name}@{promoted.partition('@')[2]}" if promoted else "",
        is_new_version=bool(promoted) and not known,
        tasks=[
            {
                "name": task.name,
                "state": task.state,
                "seconds": task.seconds,
                "cached": task.is_cached,
            }
            for task in view.tasks
        ],
        seconds=round(seconds, 2),
        error=view.error,
        warnings=view.warnings,
        **data_facts(view),
    )


def data_facts(view: RunView) -> dict[str, Any]:
    """Return what a run's view tells of its examples, by the field of `Summary`."""
    examples = view.outputs.get("prepare-examples", {}).get("examples", {})
    return {
        "data_report": f"{examples['uri']}/{examples['report']}" if "report" in examples else "",
        "data_notes": tuple(str(examples.get("notes", "")).splitlines()),
        "drift": tuple(str(examples.get("drift", "")).splitlines()),
    }


def short_name(resource_name: str) -> str:
    """`5@2` of `projects/P/locations/L/models/5@2`."""
    return resource_name.rsplit("/", 1)[-1]


def task_table(summary: Summary) -> Table:
    """The tasks with their states and seconds."""
    table = Table(box=None, pad_edge=False)
    table.add_column("task")
    table.add_column("state")
    table.add_column("seconds", justify="right")
    for task in summary.tasks:
        state = task["state"].lower().replace("_", " ") + (" (cached)" if task["cached"] else "")
        style = COLOURS.get(task["state"], "dim")
        table.add_row(task["name"], Text(state, style=style), f"{task['seconds']:.1f}")
    table.add_row("whole run", Text(summary.state.lower(), style="bold"), f"{summary.seconds:.1f}")
    return table


def _numbers(metadata: dict[str, Any]) -> dict[str, float]:
    """The metrics; counts are whole numbers again, which kfp.local answers as floats."""
    return {
        name: int(value) if name.startswith("num_") else value
        for name, value in metadata.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
