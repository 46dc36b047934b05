"""`trainyard runs resume`: the request of a run that did not succeed, sent again.

Steps that succeeded come from the cache. Training continues from its last checkpoint, because the
step that plans the job, with its output folder, is cached.
"""

import re
from collections.abc import Callable
from pathlib import Path

from components.run_result.summary import INTERRUPTED_PREFIX
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import BILLING_LABEL, RUN_LABEL
from components.shared.vertex.task_details import details_in, error_of, tasks_in
from pipelines.errors import ResourceError
from pipelines.package.image import default_image, is_of_this_source
from pipelines.package.spec import Package, own_image
from pipelines.resources.kinds import RUN
from pipelines.runs.submit import Submission
from pipelines.runs.view import TRAINING_TASK, view_of
from trainer import Json, paths

END_TIMEOUT_SECONDS = 180.0  # of exit tasks and of the jobs that end before them
PLAN_TASK = "plan-training"
# Set by clients; all other fields of a PipelineJob are set by the service.
KEPT_FIELDS = ("runtimeConfig", "serviceAccount", "network", "encryptionSpec", "templateUri")
CHECKPOINT = "checkpoints/step-*/checkpoint.json"


def plan_resume(api: VertexApi, run: str, *, runs_image: bool) -> Submission:
    """Return the run that continues `run`.

    `runs_image` is whether steps run in the image that they name, instead of from this source.

    Raises:
        ResourceError: the run cannot be resumed.
    """
    job = RUN.get(api, run)
    _check_resumable(job, run)
    package = Package(
        source=run, text="", spec=job["pipelineSpec"], address=job.get("templateUri", "")
    )
    image = own_image(package)
    if image and not runs_image and not is_of_this_source(image):
        raise ResourceError(
            f"run {run} was started from another source ({image}; this is {default_image()}) and "
            "its checkpoints belong to that code; check out that source, or start a new run with "
            "trainyard submit"
        )
    name = _new_name(api, run)
    labels = {key: value for key, value in job.get("labels", {}).items() if key != BILLING_LABEL}
    request = {
        "displayName": name,
        "pipelineSpec": job["pipelineSpec"],
        **{field: job[field] for field in KEPT_FIELDS if field in job},
        "labels": {**labels, RUN_LABEL: name},
    }
    return Submission(run=name, package=package, config=None, request=request)


def explain_resume(api: VertexApi, run: str) -> str:
    """Return a sentence that says where the resumed run will continue."""
    job = RUN.get(api, run)
    if not _is_cached(job["pipelineSpec"]):
        return f"{run} was started with --no-cache: every step runs again, including training"
    view = view_of(job)
    if any(task.name == TRAINING_TASK and task.state == "SUCCEEDED" for task in view.tasks):
        return "training has succeeded and comes from the cache"
    folder = str(view.outputs.get(f"{PLAN_TASK}.base_output_directory", ""))
    if not folder:
        return "training had not started; the steps that succeeded come from the cache"
    if paths.is_in_bucket(folder):
        return f"training continues from the last checkpoint in {paths.uri(folder)}/checkpoints"
    step = last_step(Path(folder))
    if step is None:
        return f"training starts at step 0: there is no checkpoint in {folder}/checkpoints"
    return f"training continues from step {step}, the last checkpoint in {folder}/checkpoints"


def last_step(output_dir: Path) -> int | None:
    """Return the step of the last complete checkpoint, None if there is none."""
    steps = (path.parent.name.removeprefix("step-") for path in output_dir.glob(CHECKPOINT))
    return max((int(step) for step in steps if step.isdecimal()), default=None)


def await_end(api: VertexApi, run: str, *, say: Callable[[str], None]) -> None:
    """Wait for the exit tasks of a run that is being cancelled or whose process was killed.

    Raises:
        ResourceError: it does not end in time.
    """
    job = RUN.get(api, run)
    is_interrupted = _is_interrupted(job)
    if RUN.is_final(job) or not (is_interrupted or RUN.state_of(job) == "CANCELLING"):
        return
    reason = "interrupted" if is_interrupted else "cancelled"
    say(f"run {run} was {reason}; waiting for its exit task")
    try:
        RUN.wait(api, run, timeout_seconds=END_TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise ResourceError(f"{error}; see trainyard runs show {run}") from error


def _is_interrupted(job: Json) -> bool:
    """Return whether the process that executed an unfinished run was killed."""
    messages = map(error_of, [job, *details_in(job)])
    return any(message.startswith(INTERRUPTED_PREFIX) for message in messages)


def _check_resumable(job: Json, run: str) -> None:
    if not RUN.is_final(job):
        raise ResourceError(
            f"run {run} is {RUN.state_of(job)}; it can be resumed once it has failed or was "
            f"cancelled. See trainyard runs show {run}; trainyard runs cancel {run} cancels it"
        )
    if RUN.state_of(job) == "SUCCEEDED":
        raise ResourceError(f"run {run} has succeeded; there is nothing to resume")


def _is_cached(spec: Json) -> bool:
    tasks = tasks_in(spec)
    return any(task.get("cachingOptions", {}).get("enableCache") for _, task in tasks)


def _new_name(api: VertexApi, run: str) -> str:
    """Return RUN-r2, or RUN-rN with the next free number."""
    match = re.fullmatch(r"(.+)-r(\d{1,6})", run)
    base, number = (match[1], int(match[2])) if match else (run, 1)
    while True:
        number += 1
        name = f"{base}-r{number}"
        if not api.find(RUN.path(api, name)):
            return name
