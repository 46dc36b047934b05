"""Upload of a job's or a folder's model as a version, without a pipeline."""

import contextlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from components.errors import StepError
from components.model_version.champion import model_digest
from components.model_version.recorded import upload_version
from components.model_version.registry import find_model, list_versions, with_alias
from components.model_version.saved_model import DESCRIPTION, check_saved_model
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import MODEL_LABEL
from components.shared.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from pipelines.package.digests import by_digest
from pipelines.package.image import default_image, image_of
from pipelines.resources.kinds import JOB
from pipelines.resources.names import short_name
from trainer import Json, paths
from trainer.config.trust import OWN, STRANGER, Trust
from trainer.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,127}", re.ASCII)
# Model.version_aliases of Vertex AI's REST API.
ALIAS = re.compile(r"[a-z][a-zA-Z0-9-]{0,126}[a-z0-9]", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class UploadSource:
    """A folder with a SavedModel, and the job that wrote it, if any, with its image."""

    uri: str
    job: str = ""
    job_image: str = ""


def upload(
    api: VertexApi,
    source: str,
    *,
    name: str,
    aliases: Sequence[str] = (),
    image: str = "",
    trust: Trust = STRANGER,
    is_remote: bool,
) -> list[str]:
    """Upload the model of a job or a folder as a version of the model `name`.

    The default image of the prediction server is the job's or this source's own. `trust` is in the
    author of a folder; the author of a job's model is the user. With `is_remote` the registry is
    Vertex AI's, which reads buckets and pulls images.

    Raises:
        ResourceError: there is no such job or model, or the model cannot be served.
        ConfigError: Vertex AI cannot pull the image.
    """
    _check_names(name, aliases)
    origin = find_source(api, source)
    trust = OWN if origin.job else trust
    if is_remote:
        _check_remote(origin.uri)
    else:
        origin = replace(origin, uri=str(paths.local_path(origin.uri)))
    image = image or (origin.job_image if is_remote else "") or image_of_model(origin.uri)
    if is_remote:
        image = by_digest(image)
    try:
        digest = model_digest(origin.uri)
        description = check_saved_model(origin.uri, trust=trust)
    except (StepError, InputError) as error:
        raise ResourceError(str(error)) from error
    labels = {MODEL_LABEL: digest} if digest else {}
    origin_text = ": ".join(filter(None, [origin.job, origin.uri]))
    moved = _moved_aliases(api, name, aliases)
    version = upload_version(
        api,
        display_name=name,
        artifact_uri=origin.uri,
        image=image,
        trust=trust,
        labels=labels,
        aliases=aliases,
    )
    lines = _result_lines(api, name, version, f"{description}, from {origin_text}")
    return [*lines, *moved]


def _moved_aliases(api: VertexApi, name: str, aliases: Sequence[str]) -> list[str]:
    """Return a line for each alias that another version of a model has and will lose."""
    model = find_model(api, name)
    known = list_versions(api, model) if model else []
    holders = {alias: with_alias(known, alias) for alias in aliases}
    return [
        f"the alias {alias} was moved from {name}@{holder['versionId']}"
        for alias, holder in holders.items()
        if holder
    ]


def image_of_model(uri: str) -> str:
    """Return the image of this source, or of the folder for a model of a user's folder."""
    with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
        content = json.loads(Path(uri, DESCRIPTION).read_text())
        return image_of(str(content.get("reference", content["workload"])))
    return default_image()


def find_source(api: VertexApi, source: str) -> UploadSource:
    """Return the model folder of a job, given its id or name, or a given folder.

    A source with a slash is a folder; otherwise a job takes precedence over a folder.

    Raises:
        ResourceError: there is neither, or the job has not succeeded.
    """
    if "/" not in source and (job := JOB.find(api, source)):
        return source_of(job)
    uri = paths.uri(source)
    if paths.is_bucket_uri(uri):
        return UploadSource(uri=uri.rstrip("/"))
    folder = Path(uri).absolute()
    if "/" not in source and not folder.exists():
        raise ResourceError(
            f"there is neither a job nor a folder {source!r}; `trainyard jobs list` shows the jobs"
        )
    return UploadSource(uri=str(folder))


def source_of(job: Json) -> UploadSource:
    """Return the model folder of a job.

    Raises:
        ResourceError: the job has not succeeded, or has no output folder.
    """
    job_id, state = short_name(job["name"]), JOB.state_of(job)
    title = JOB.described(job)
    if not JOB.is_final(job):
        raise ResourceError(f"{title} is {state}; wait for it first: trainyard jobs wait {job_id}")
    if state != "SUCCEEDED":
        raise ResourceError(
            f"{title} is {state} and has no finished model; its log: trainyard jobs logs {job_id}. "
            f"Submitted again with --name {job['displayName']} it resumes from its last checkpoint"
        )
    spec = job["jobSpec"]
    output = spec.get("baseOutputDirectory", {}).get("outputUriPrefix", "")
    if not output:
        raise ResourceError(
            f"{title} has no baseOutputDirectory; give the folder of its model instead"
        )
    images = [
        pool.get("containerSpec", {}).get("imageUri", "")
        for pool in spec.get("workerPoolSpecs", [])
    ]
    uri = paths.uri(output).rstrip("/")
    return UploadSource(uri=f"{uri}/model", job=title, job_image=next(filter(None, images), ""))


def _check_names(name: str, aliases: Sequence[str]) -> None:
    if not NAME.fullmatch(name):
        raise ResourceError(
            f"--name {name!r} is not allowed; use at most 128 letters, digits, spaces, '-', '_' "
            "and '.'"
        )
    for alias in aliases:
        if not ALIAS.fullmatch(alias):
            raise ResourceError(
                f"--version-alias {alias!r} is not allowed; use 2 to 128 letters, digits and '-', "
                "starting with a lower-case letter"
            )


def _check_remote(uri: str) -> None:
    if not paths.is_bucket_uri(uri):
        raise ResourceError(
            f"{uri} is a local folder, which Vertex AI cannot read; copy it to a bucket "
            f"(gcloud storage cp -r {shlex.quote(uri)} gs://BUCKET/FOLDER) and give gs://BUCKET/FOLDER"
        )


def _result_lines(api: VertexApi, name: str, version: ResourceName, description: str) -> list[str]:
    version_name = f"{name}@{version.version}"
    aliases = api.get(version.name).get("versionAliases", [])
    title = f"{version_name} ({', '.join(aliases)})" if aliases else version_name
    lines = [
        f"{title} is uploaded: {description}",
        f"trainyard endpoints deploy {version_name}   # serve it",
    ]
    if "default" not in aliases:
        lines.append(f"trainyard models set-default {version_name}   # make it the default")
    return lines
