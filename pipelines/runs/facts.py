"""Facts of runs, read from their PipelineJobs."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from components.run_result.settings import settings_in
from components.run_result.summary import GATE_FAILED, Summary, summarize
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import SCHEDULE_LABEL
from pipelines.exit_codes import FAILED, GATED, OK

NUM_THREADS = 8


def newest_runs(api: VertexApi, *, limit: int, schedule: str = "") -> list[Summary]:
    """Return the summaries of the newest runs, newest first.

    Lists omit task details, here and on Vertex AI, so each run is requested by name.
    A limit of 0 is none.
    """
    query = f'labels.{SCHEDULE_LABEL}="{schedule}"' if schedule else ""
    order = {"orderBy": "create_time desc", "pageSize": str(limit or "")}
    records = api.list_resources("pipelineJobs", filter=query, readMask="name", **order)
    names = [record["name"] for record in itertools.islice(records, limit or None)]
    with ThreadPoolExecutor(NUM_THREADS) as threads:
        jobs = list(threads.map(api.find, names))
    return [summarize(job) for job in jobs if job]  # None: deleted in the meantime


def exit_code_of(summary: Summary) -> int:
    """Return the exit code of a command that follows a run to its end."""
    if summary.state != "SUCCEEDED":
        return FAILED
    return GATED if summary.outcome == GATE_FAILED else OK


def changed_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the workload's defaults.

    The defaults of a user's workload are those without a run.yaml.
    """
    from pipelines.config.built_in import RUNS  # imports NumPy, which no list of runs needs
    from pipelines.projects.runs import default_run

    name = str(settings.get("workload", ""))
    if name in RUNS:
        run = RUNS[name]()
    elif name and {"model_name", "endpoint_name"} <= set(settings):
        run = default_run(name, name=name)
    else:
        return settings  # a pipeline of another repository
    defaults = settings_in(run.parameters())
    return {
        name: value
        for name, value in settings.items()
        if value != defaults.get(name, "" if isinstance(value, str) else None)
    }
