"""batchPredictionJobs: predictions of a model for the instances of files (`prediction.py`)."""

import re
from functools import partial

from vertex_local import Json
from vertex_local.api import protos
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import driven_kind
from vertex_local.api.service import Service
from vertex_local.batch.instances import FORMATS, find_files
from vertex_local.batch.prediction import BatchPrediction
from vertex_local.errors import ApiError, invalid_argument
from vertex_local.machine.files import local_path, path_problem
from vertex_local.models import resource as models

KIND = driven_kind("batchPredictionJobs", folder="batch", prefix="JOB_STATE_")
UNSUPPORTED = ("unmanagedContainerModel", "generateExplanation", "explanationSpec")


def _driver(service: Service, name: str) -> BatchPrediction:
    return BatchPrediction(service, name, folder=KIND.folder_of(service, name))


def create(service: Service, call: Call) -> Json:
    """POST …/batchPredictionJobs: start the prediction and return the job as PENDING."""
    job = protos.parse("BatchPredictionJob", call.body)
    _check(job)
    model = models.resolve(service, job.get("model", ""))
    record = KIND.new_record(f"{call.parent}/{KIND.collection}/{service.store.next_id()}", job)
    prefix = job["outputConfig"]["gcsDestination"]["outputUriPrefix"].rstrip("/")
    title = re.sub(r"[^\w.-]", "_", model["displayName"])
    moment = f"{record['createTime'][:-4]}Z"  # milliseconds
    record["modelVersionId"] = model["versionId"]
    record["outputInfo"] = {"gcsOutputDirectory": f"{prefix}/prediction-{title}-{moment}"}
    KIND.folder_of(service, record["name"]).mkdir(parents=True)
    service.store.insert(record["name"], record)
    KIND.watch(service, record["name"], partial(_driver, service, record["name"]))
    return record


def _check(job: Json) -> None:
    """Check a job beyond its proto.

    Raises:
        ApiError: INVALID_ARGUMENT or UNIMPLEMENTED, naming the field.
    """
    source, target = job["inputConfig"], job["outputConfig"]
    unsupported = [name for name in UNSUPPORTED if name in job]
    if source["instancesFormat"] not in FORMATS or "bigquerySource" in source:
        unsupported.append(f'inputConfig.instancesFormat "{source["instancesFormat"]}"')
    if target["predictionsFormat"] != "jsonl" or "bigqueryDestination" in target:
        unsupported.append(f'outputConfig.predictionsFormat "{target["predictionsFormat"]}"')
    if unsupported:
        raise ApiError(
            "UNIMPLEMENTED",
            f"{unsupported[0]} is not supported by this service; it predicts with an uploaded "
            f"model, reads {', '.join(FORMATS)}, and writes jsonl.",
        )
    uris = source.get("gcsSource", {}).get("uris", [])
    if not uris:
        raise invalid_argument("inputConfig.gcsSource.uris is required.")
    for uri in uris:
        find_files(uri)
    prefix = target.get("gcsDestination", {}).get("outputUriPrefix", "")
    if not local_path(prefix):
        problem = path_problem(prefix)
        raise invalid_argument(f'outputConfig.gcsDestination.outputUriPrefix "{prefix}" {problem}.')


recover = partial(KIND.continue_unfinished, driver=_driver)
ROUTES = KIND.routes(create)
