"""batchPredictionJobs: predictions of a model for the instances of files (`prediction.py`)."""

import re
from functools import partial

from vertex_local import Json
from vertex_local.api import protos
from vertex_local.api.routes import Call
from vertex_local.api.run_lifecycle import driven_kind
from vertex_local.api.service import Service
from vertex_local.batch.instances import FORMATS, find_files
from vertex_local.batch.prediction import FOLDER, BatchPrediction
from vertex_local.errors import ApiError, invalid_argument
from vertex_local.machine.files import local_path, path_problem
from vertex_local.models import resource as models

KIND = driven_kind("batchPredictionJobs", folder=FOLDER, prefix="JOB_STATE_")
UNSUPPORTED = (
    "unmanagedContainerModel",
    "generateExplanation",
    "explanationSpec",
    "instanceConfig",
    "bigquerySource",
    "bigqueryDestination",
)


def create(service: Service, call: Call) -> Json:
    """POST …/batchPredictionJobs: start the prediction and return the job as PENDING."""
    job = protos.parse("BatchPredictionJob", call.body)
    _check(job)
    model = models.resolve(service, job["model"])
    if not model["name"].startswith(f"{call.parent}/"):
        raise invalid_argument(f"model {model['name']} is not in {call.parent}, as its job.")
    record = KIND.new_record(f"{call.parent}/{KIND.collection}/{service.store.next_id()}", job)
    prefix = job["outputConfig"]["gcsDestination"]["outputUriPrefix"].rstrip("/")
    title = re.sub(r"[^\w.-]", "_", model["displayName"])
    moment = f"{record['createTime'][:-4]}Z"  # milliseconds
    record["modelVersionId"] = model["versionId"]
    record["outputInfo"] = {"gcsOutputDirectory": f"{prefix}/prediction-{title}-{moment}"}
    KIND.folder_of(service, record["name"]).mkdir(parents=True)
    service.store.insert(record["name"], record)
    KIND.watch(service, record["name"], partial(BatchPrediction, service, record["name"]))
    return record


def _check(job: Json) -> None:
    """Check a job beyond its proto.

    Raises:
        ApiError: INVALID_ARGUMENT or UNIMPLEMENTED, naming the field.
    """
    source, target = job["inputConfig"], job["outputConfig"]
    unsupported = [name for name in UNSUPPORTED if name in (*job, *source, *target)]
    if source["instancesFormat"] not in FORMATS:
        unsupported.append(f'instancesFormat "{source["instancesFormat"]}"')
    if target["predictionsFormat"] != "jsonl":
        unsupported.append(f'predictionsFormat "{target["predictionsFormat"]}"')
    if unsupported:
        raise ApiError(
            "UNIMPLEMENTED",
            f"{unsupported[0]} is not supported by this service; it predicts with an uploaded "
            f"model, reads {', '.join(FORMATS)}, and writes jsonl.",
        )
    for uri in source.get("gcsSource", {}).get("uris", [""]):
        find_files(uri)
    prefix = target.get("gcsDestination", {}).get("outputUriPrefix", "")
    if not local_path(prefix):
        field = "outputConfig.gcsDestination.outputUriPrefix"
        raise invalid_argument(f'{field} "{prefix}" {path_problem(prefix)}.')


recover = partial(KIND.continue_unfinished, driver=BatchPrediction)
ROUTES = KIND.routes(create)
