"""Batch prediction: the model's folder for this machine, the request of a job for Vertex AI."""

from collections.abc import Sequence
from pathlib import Path

from components.model_version.champion import check_registered
from components.model_version.registry import trust_of, version_name
from components.run_result.summary import summarize
from components.shared.text.json_object import present
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from pipelines.resources.kinds import JOB, RUN
from pipelines.resources.names import get_model
from pipelines.runs.view import training_job
from trainer import Json, paths
from trainer.config.trust import OWN, Trust
from trainer.errors import near_path


def is_folder(model: str) -> bool:
    """Return whether a model is given by its folder, `./NAME` or gs://, rather than by its name."""
    return "/" in model


def folder_of(model: str) -> str:
    """Return the absolute folder of a model.

    Raises:
        ResourceError: there is no such folder.
    """
    if paths.is_bucket_uri(model):
        return model
    if not Path(model).is_dir():
        raise ResourceError(f"there is no folder {model!r} with a model{near_path(model)}")
    return str(Path(model).absolute())


def find_model_of(api: VertexApi, name: str) -> tuple[str, Trust]:
    """Return the folder of the model that a name stands for, and the trust in its author.

    It is a model's name, MODEL@VERSION, a run, whose promoted version or training job is meant, or
    the number or name of a job.

    Raises:
        VertexError: NOT_FOUND; nothing has this name.
        ResourceError: a job has no model, or a version no files.
    """
    from pipelines.serving.upload import source_of  # imports NumPy

    try:
        _, uri, trust = find_version(api, name)
        return uri, trust
    except VertexError as error:
        if error.status != "NOT_FOUND":
            raise
        if run := RUN.find(api, name):
            if version := summarize(run).model_version:
                return find_model_of(api, version)
            name = training_job(api, run["displayName"]) or name
        if job := JOB.find(api, name):
            return source_of(job).uri, OWN
        raise


def find_version(api: VertexApi, name: str) -> tuple[ResourceName, str, Trust]:
    """Return a model version, the folder of its files, and the trust in its author.

    Raises:
        ResourceError: the version has no files of its own.
        InputError, StepError: they are not those that were registered.
    """
    model = get_model(api, name)
    uri = str(model.get("artifactUri", ""))
    if not uri:
        raise ResourceError(f"{name} has no artifactUri, so its files are unknown")
    if not paths.is_bucket_uri(uri):
        check_registered(model)
    return version_name(model), uri, trust_of(model)


def job_request(
    version: ResourceName,
    *,
    name: str,
    inputs: Sequence[str],
    output_uri: str,
    machine: str,
    num_replicas: int,
) -> Json:
    """Return the body of `POST …/batchPredictionJobs`: a job of Vertex AI's REST API.

    https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.batchPredictionJobs

    Raises:
        ResourceError: a file is not in a bucket, or is not JSON lines: Vertex AI sends the rows of
            other files to the server without column names.
    """
    for uri in (*inputs, output_uri):
        if not paths.is_bucket_uri(uri):
            raise ResourceError(
                f"{uri} is not in a bucket, so Vertex AI cannot reach it: give gs://"
            )
    for uri in inputs:
        if not uri.endswith((".jsonl", ".json", ".ndjson")):
            raise ResourceError(
                f"{uri}: on Vertex AI give JSON lines of instances; `trainyard predict` reads the"
                " other formats on this machine"
            )
    return present(
        {
            "displayName": name,
            "model": version.name,
            "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": inputs}},
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": {"outputUriPrefix": output_uri},
            },
            "dedicatedResources": {
                "machineSpec": {"machineType": machine},
                "startingReplicaCount": num_replicas,
                "maxReplicaCount": num_replicas,
            },
        }
    )
