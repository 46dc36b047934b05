"""The facts of runs, by Vertex AI's REST API: each from its own PipelineJob."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from components.labels import SCHEDULE_LABEL
from components.run_summary.settings import settings_of
from components.run_summary.summary import Summary, summarize
from components.vertex.api import VertexApi
from pipelines.config import RUNS, named_run
from trainer.json_types import Json

NUM_THREADS = 8


def newest_runs(api: VertexApi, *, limit: int, schedule: str = "") -> list[Summary]:
    """Return the facts of the newest runs, newest first; 0 for all, `schedule` for its runs only.

    A list has no task details, here and on Vertex AI, so each run is asked for.
    """
    query = f'labels.{SCHEDULE_LABEL}="{schedule}"' if schedule else ""
    records = sorted(
        api.list_resources("pipelineJobs", filter=query),
        key=lambda record: record["createTime"],
        reverse=True,
    )
    names = [record["name"] for record in records[: limit or None]]
    with ThreadPoolExecutor(NUM_THREADS) as threads:
        jobs = list(threads.map(api.find, names))
    return [summarize(job) for job in jobs if job]  # one may be deleted meanwhile


def changed_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from those of the named run of this workload."""
    if settings.get("workload") not in RUNS:
        return settings
    parameters = named_run(str(settings["workload"])).parameters()
    usual = settings_of(_job_with(parameters))
    return {
        name: value
        for name, value in settings.items()
        if value != usual.get(name, "" if isinstance(value, str) else None)
    }


def _job_with(parameters: dict[str, Any]) -> Json:
    return {"runtimeConfig": {"parameterValues": parameters}}
