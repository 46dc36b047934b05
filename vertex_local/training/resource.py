"""trainingPipelines: a custom job, and the upload of the model that it writes."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.api import protos
from vertex_local.api.resource_names import ResourcePath
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import driven_kind
from vertex_local.api.service import Service
from vertex_local.errors import ApiError, invalid_argument
from vertex_local.jobs import resource as jobs
from vertex_local.jobs.record import plan_job
from vertex_local.machine import buckets
from vertex_local.models import resource as models
from vertex_local.processes.supervisor import INTERRUPTED

CUSTOM_TASK = "custom_task_1.0.0.yaml"  # the others train AutoML's models
POLL_SECONDS = 0.2
CANCELLED = "The training pipeline was cancelled."
KIND = driven_kind("trainingPipelines", folder="training", prefix="PIPELINE_STATE_")


class TrainingDriver:
    """Driver of a training pipeline, with the interface of a group of processes.

    All its state is in the record, so that the next service continues it; but a custom job ends
    with its service.
    """

    def __init__(self, service: Service, name: str) -> None:
        self._service = service
        self._name = name
        self._job: str = service.store.get(name)["trainingTaskMetadata"]["backingCustomJob"]
        self._stop = threading.Event()

    def request_stop(self, grace_seconds: float) -> None:
        """Request the end of the custom job, without waiting for it."""
        self._stop.set()
        jobs.KIND.request_end(self._service, self._job, grace_seconds=grace_seconds)

    def wait(self) -> Json:
        """Wait for the end of the custom job, upload its model; return the last state."""
        store = self._service.store
        while (job := store.find(self._job)) and jobs.KIND.is_unfinished(job):
            time.sleep(POLL_SECONDS)
        if self._service.ending.is_set():
            return {"state": "interrupted", "message": INTERRUPTED}
        if self._stop.is_set():
            return {"state": "cancelled", "message": CANCELLED}
        if job is None or job["state"] != "JOB_STATE_SUCCEEDED":
            reason = job.get("error", {}).get("message", "") if job else "it was deleted"
            return {"state": "failed", "message": f"{self._job} did not succeed: {reason}"}
        try:
            self._upload(job)
        except (ApiError, OSError) as error:
            return {"state": "failed", "message": f"The model was not uploaded: {error}"}
        return {"state": "succeeded", "message": ""}

    def _upload(self, job: Json) -> None:
        """Upload the model; the version and its name in the record are stored together."""
        record = self._service.store.get(self._name)
        model = record.get("modelToUpload", {})
        if not model or "name" in model:  # none, or before a restart
            return
        output_dir = plan_job(job).output_dir
        folder = output_dir / "model" if output_dir else Path()
        if not output_dir or not folder.is_dir() or not any(folder.iterdir()):
            raise invalid_argument(f"there are no files in {folder}, which is AIP_MODEL_DIR")
        request = _upload_request(self._name, record)
        request["model"] = {**request["model"], "artifactUri": buckets.uri_of(str(folder))}

        def on_stored(name: str, version: Json) -> None:
            def change(training: Json) -> None:
                training["modelToUpload"] |= {"name": name, "versionId": version["versionId"]}

            self._service.store.update(self._name, change)

        _, work = models.plan_upload(self._service, request, on_stored=on_stored)
        work(threading.Event())


def create(service: Service, call: Call) -> Json:
    """POST …/trainingPipelines: start the custom job and return the pipeline as PENDING."""
    training = protos.parse("TrainingPipeline", call.body)
    body = custom_job(training)
    name = f"{call.parent}/{KIND.collection}/{service.store.next_id()}"
    if "modelToUpload" in training:
        models.plan_upload(service, _upload_request(name, training))  # checks it
        if not plan_job(body).output_dir:
            raise invalid_argument(
                "trainingTaskInputs.baseOutputDirectory is required with modelToUpload."
            )
    with service.store.atomic():
        job = jobs.insert(service, call.parent, body)
        record = KIND.new_record(name, training)
        record["trainingTaskMetadata"] = {"backingCustomJob": job["name"]}
        service.store.insert(name, record)
    jobs.launch(service, job)
    KIND.watch(service, name, partial(TrainingDriver, service, name))
    return record


def custom_job(training: Json) -> Json:
    """Return the CustomJob of a training pipeline.

    Raises:
        ApiError: INVALID_ARGUMENT: it trains no custom job, or uses a data set.
    """
    definition = training.get("trainingTaskDefinition", "")
    if not definition.endswith(CUSTOM_TASK):
        raise invalid_argument(
            f'trainingTaskDefinition "{definition}" is not supported by this service; it runs '
            f"{CUSTOM_TASK}."
        )
    if "inputDataConfig" in training:
        raise invalid_argument("inputDataConfig is not supported: this service has no data sets.")
    inputs: Any = training.get("trainingTaskInputs", {})
    job = {
        "displayName": training.get("displayName", ""),
        "jobSpec": inputs,
        "labels": training.get("labels", {}),
    }
    parsed = protos.parse("CustomJob", job)
    plan_job(parsed)
    return parsed


def _upload_request(name: str, training: Json) -> Json:
    request = {"parent": ResourcePath.from_name(name).parent, "model": training["modelToUpload"]}
    return request | {key: training[key] for key in ("modelId", "parentModel") if key in training}


recover = partial(KIND.continue_unfinished, driver=TrainingDriver)
ROUTES = KIND.routes(create)
