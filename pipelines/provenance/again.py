"""A training executed again, in a service and folders of its own."""

import contextlib
import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from components.errors import StepError
from components.run_result.settings import WEBHOOK, parameters_of
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi
from components.shared.vertex.task_details import outputs_by_task
from pipelines.package.spec import Package
from pipelines.places.local_service import environment, local_service
from pipelines.places.target import Target, buckets_of
from pipelines.provenance.record import Record, record_of
from pipelines.provenance.source import Source
from pipelines.runs.execute import show_to_end
from pipelines.runs.request import create_run, new_run_name, run_request
from pipelines.runs.submit import Submission
from trainer import Json
from trainer.references import CODE_DIR

DATA_TASK, LAST_TASK = "prepare-examples", "evaluate"
# Of Vertex AI, or with effects outside the scratch folder.
PLACES = ("service_account", "network", "tensorboard", WEBHOOK)


@contextlib.contextmanager
def scratch_service(target: Target, source: Source, *, state_dir: Path) -> Iterator[VertexApi]:
    """Connect to a service on the folders of `target`, which executes another source's code.

    It reads code and buckets from `state_dir`, where the run that is repeated has them.
    """
    target.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (CODE_DIR, buckets_of(state_dir).name):
        if (state_dir / name).is_dir():
            (target.state_dir / name).symlink_to(state_dir / name)
    with (
        environment(**{"PYTHONPATH": str(source.root), EMULATOR_VARIABLE: None}),
        local_service(target.state_dir / "vertex", python=source.python),
    ):
        yield target.connect()


def execute(
    api: VertexApi, record: Record, *, until: str, target: Target, console: Console
) -> Record:
    """Execute the tasks of a run up to one again, and return their record.

    The examples of an earlier call come from the service's cache.

    Raises:
        StepError: a task fails, with its error.
    """
    name = new_run_name(f"again-{record.summary.workload}")
    spec = tasks_until(record.job["pipelineSpec"], until)
    package, parameters = Package(source=name, text="", spec=spec), repeated_parameters(record.job)
    request = run_request(
        package, run=name, pipeline_root=target.pipeline_root, parameters=parameters
    )
    result = show_to_end(
        api,
        Submission(run=name, package=package, config=None, request=request),
        console=console,
        create=partial(create_run, api, request, run=name),
        wants_cancel=lambda: True,
    )
    if result.is_interrupted:
        raise KeyboardInterrupt
    if result.summary.state != "SUCCEEDED":
        raise StepError(f"it cannot be made again here: {result.summary.error}")
    return record_of(result.view.job)


def repeated_parameters(job: Json) -> Json:
    """Return a run's parameters for its repetition: with the files and days that it had.

    Nothing triggers, reports or stays.
    """
    values = {
        **parameters_of(job),
        "trigger": "{}",
        "keep_endpoint": False,
        "report_success": False,
    }
    if text := outputs_by_task(job).get("start.prepare"):
        values["prepare"] = text
    return {**values, **{name: "" for name in PLACES if name in values}}


def tasks_until(spec: Json, last: str) -> Json:
    """Return a compiled pipeline without the tasks on which `last` does not depend."""
    spec = copy.deepcopy(spec)

    def cut(graph: Json) -> bool:
        tasks: Json = graph["dag"]["tasks"]
        for name, task in tasks.items():
            component = spec["components"][task["componentRef"]["name"]]
            if name == last or ("dag" in component and cut(component)):
                needed = _needed(tasks, name)
                graph["dag"]["tasks"] = {key: tasks[key] for key in tasks if key in needed}
                return True
        return False

    cut(spec["root"])
    return spec


def _needed(tasks: Json, name: str) -> set[str]:
    """Return a task and all tasks of its graph that it depends on."""
    before = tasks[name].get("dependentTasks", [])
    return {name}.union(*(_needed(tasks, each) for each in before))
