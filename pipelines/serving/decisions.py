"""A person's decisions about a model: hold, release, approve and reject."""

import os
from functools import partial
from typing import NoReturn

from components.errors import StepError
from components.model_version.champion import Champion, default_champion, find_compared
from components.model_version.companions import read_golden
from components.model_version.decisions import (
    APPROVED,
    HELD,
    RELEASED,
    decide,
    is_rejected,
    verdict_of,
)
from components.model_version.history import cause_of
from components.model_version.registry import (
    DEFAULT,
    list_versions,
    version_name,
    was_promoted,
    with_alias,
)
from components.release.options import ReleaseOptions
from components.release.overlap import Contest
from components.release.release import Release, promote_known
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import HELD_LABEL, REJECTED
from components.shared.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from pipelines.resources.names import get_version, model_name, this_person, version_text
from pipelines.serving.releases import BY_HAND, parameters_of_run, resources_of_run
from trainer import Json


def hold(api: VertexApi, name: str, *, reason: str) -> list[str]:
    """Keep the default version of a model where it is, whatever runs find, until `release`.

    Raises:
        ResourceError: no version of it was promoted.
    """
    versions = list_versions(api, model_name(api, name))
    default = with_alias(versions, DEFAULT)
    if default is None or not was_promoted(default):
        raise ResourceError(
            f"{name} has no promoted version to hold; to decide about each version of its runs:"
            " --set release.approval=required"
        )
    decide(api, version_name(default), HELD, by=this_person(), reason=reason)
    return [
        f"{name} is held at version {default['versionId']}: no run promotes another one",
        f"end this with: trainyard models release {name}",
    ]


def release(api: VertexApi, name: str, *, reason: str) -> list[str]:
    """End a hold.

    Raises:
        ResourceError: the model is not held.
    """
    versions = list_versions(api, model_name(api, name))
    held = [record for record in versions if HELD_LABEL in record.get("labels", {})]
    if not held:
        raise ResourceError(f"{name} is not held; `trainyard models history {name}` tells more")
    for record in held:
        decide(api, version_name(record), RELEASED, by=this_person(), reason=reason)
    return [f"{name} is released: the next run that passes is promoted"]


def reject(api: VertexApi, name: str, *, reason: str) -> list[str]:
    """Reject MODEL@VERSION: no run promotes the same model.

    Raises:
        ResourceError: it is the default version, also if it became so in this moment.
    """
    record = get_version(api, name)
    version = version_name(record)
    decide(api, version, REJECTED, by=this_person(), reason=reason, check=_refuse_default)
    lines = [
        f"{version_text(record)} is rejected: no run promotes the same model, as long"
        " as the version is not deleted"
    ]
    if record.get("deployedModels"):
        lines.append(f"it is still deployed: trainyard endpoints undeploy {name}")
    return lines


def approve(api: VertexApi, name: str, *, reason: str = "", is_compared: bool = True) -> list[str]:
    """Promote MODEL@VERSION as its run would have, with the same checks and settings.

    It is served if the endpoint serves already, or the run was to keep it. A rejected version may
    be approved: that ends the rejection.

    With `is_compared` the version must have passed beside the present default version.

    Raises:
        ResourceError: it is the default version, or nothing can check it.
        StepError: a check failed, the model is held, or it was not compared with the default.
    """
    from kfp.dsl import Metrics  # imports for a second

    record = get_version(api, name)
    version = version_name(record)
    _refuse_default(record)
    golden = _golden(record, name)
    parameters = parameters_of_run(api, record)
    compared = (
        find_compared(api, version.name)
        if is_compared
        else default_champion(api, version.unversioned)
    )
    release = Release(
        contest=Contest(
            api,
            version,
            champion=compared.version,
            reasons=verdict_of(record),
            judge=partial(_refuse_comparison, name, compared),
            lifts_rejection=is_rejected(record),
        ),
        endpoint_name=str(parameters.get("endpoint_name") or record["displayName"]),
        options=ReleaseOptions.from_json(str(parameters.get("release", ""))),
        cause=cause_of(APPROVED, this_person()),
        golden=golden,
        metrics=Metrics(name="metrics", uri=os.devnull),
        table_path=os.devnull,
        resources=resources_of_run(parameters, {}),
        keep_endpoint=bool(parameters.get("keep_endpoint")),
        run=BY_HAND,
    )
    serving = "and no endpoint serves its model"
    if promote_known(release):
        serving = f"served by {release.endpoint_name}"
    decide(api, version, APPROVED, by=this_person(), reason=reason)
    return [f"the default is {version_text(record)}, {serving}"]


def _golden(record: Json, name: str) -> Json:
    """Return the golden predictions of a version; ResourceError without any."""
    if golden := read_golden(record):
        return golden
    raise ResourceError(
        f"{name} has no golden.json, so nothing can check its predictions; serve it with"
        f" `trainyard endpoints deploy {name}` and `trainyard models set-default {name}`"
    )


def _refuse_default(record: Json) -> None:
    if DEFAULT in record.get("versionAliases", []) and was_promoted(record):
        raise ResourceError(
            f"{version_text(record)} is the default version; to leave it: trainyard models"
            f" rollback {record['displayName']} --reason TEXT"
        )


def _refuse_comparison(name: str, compared: Champion, default: Champion) -> NoReturn:
    number = ResourceName.from_version_name(default.version).version
    before = "no version"
    if compared.version:
        before = f"version {ResourceName.from_version_name(compared.version).version}"
    raise StepError(
        f"{name} was compared with {before}, and version {number} is the default now: a new run"
        " compares them, or approve it as it is with --uncompared"
    )
