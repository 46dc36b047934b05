"""Finds what a run left by its label, and ends or removes it. Safe to call twice."""

import logging
import time
from collections.abc import Callable

from components.labels import BILLING_LABEL, RUN_LABEL
from components.model_version.registry import (
    LRO_TIMEOUT_SECONDS,
    VersionName,
    add_alias,
    list_versions,
    undeploy,
)
from components.vertex_api import Json, VertexApi, VertexError

logger = logging.getLogger(__name__)

JOB_END_TIMEOUT_SECONDS = 120
FINAL_JOB_STATES = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


class TeardownError(Exception):
    """Something of the run could not be removed; the message lists it all."""


def teardown(api: VertexApi, *, run: str, succeeded: bool, keep_endpoint: bool = False) -> None:
    """Cancels the run's jobs, undeploys its models; removes its versions too unless it succeeded.

    Each part is tried even when one before it failed.

    Raises:
        TeardownError: what could not be removed, and why.
    """
    label = _label_of(api, run)
    parts: list[Callable[[], None]] = [lambda: cancel_jobs(api, label=label)]
    if not (succeeded and keep_endpoint):
        parts.append(lambda: undeploy_models(api, label=label))
        parts.append(lambda: delete_endpoints(api, run=run))
    if not succeeded:
        parts.append(lambda: delete_versions(api, label=label))
    problems = []
    for part in parts:
        try:
            part()
        except (VertexError, TimeoutError, OSError) as error:
            logger.exception("a part of the teardown failed")
            problems.append(str(error))
    if problems:
        raise TeardownError(f"left behind by run {run}: " + "; ".join(problems))


def _label_of(api: VertexApi, run: str) -> tuple[str, str]:
    """The label, and its value, of the jobs and versions of this run and of no other."""
    try:
        labels = api.get(f"{api.parent}/pipelineJobs/{run}").get("labels", {})
    except VertexError as error:
        if error.status != "NOT_FOUND":  # not submitted yet, or deleted
            raise
        labels = {}
    return (BILLING_LABEL, labels[BILLING_LABEL]) if BILLING_LABEL in labels else (RUN_LABEL, run)


def cancel_jobs(api: VertexApi, *, label: tuple[str, str]) -> None:
    """Cancels the run's unfinished training jobs and waits until they have ended."""
    key, value = label
    jobs = [
        job
        for job in api.list_resources("customJobs", filter=f'labels.{key}="{value}"')
        if job.get("state") not in FINAL_JOB_STATES
    ]
    for job in jobs:
        logger.info("cancelling the job %s", job["name"])
        api.post(f"{job['name']}:cancel", {})
    deadline = time.monotonic() + JOB_END_TIMEOUT_SECONDS
    for job in jobs:
        while api.get(job["name"]).get("state") not in FINAL_JOB_STATES:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{job['name']} was cancelled {JOB_END_TIMEOUT_SECONDS} s ago and has not ended"
                )
            time.sleep(0.2)


def undeploy_models(api: VertexApi, *, label: tuple[str, str]) -> None:
    """Undeploys the versions that the run made; older ones get the traffic.

    GCPC's ModelDeployOp gives a deployed model no name or label of the run.
    """
    versions = {
        (name, version["versionId"])
        for name in _models(api)
        for version in _made(list_versions(api, name), label)
    }
    for endpoint in api.list_resources("endpoints"):
        deployed = endpoint.get("deployedModels", [])
        made = [model for model in deployed if _version_of(model) in versions]
        kept = [model for model in deployed if model not in made]
        for model in made:
            undeploy(
                api,
                endpoint["name"],
                deployed_model_id=model["id"],
                traffic=_all_to_newest(kept),
            )


def delete_endpoints(api: VertexApi, *, run: str) -> None:
    """Deletes the endpoints that the run created, if nothing else is deployed to them."""
    for endpoint in api.list_resources("endpoints", filter=f'labels.{RUN_LABEL}="{run}"'):
        if not endpoint.get("deployedModels"):
            _delete(api, endpoint["name"])


def delete_versions(api: VertexApi, *, label: tuple[str, str]) -> None:
    """Deletes the model versions that a failed run uploaded; `default` goes back to `previous`."""
    for name in _models(api):
        versions = list_versions(api, name)
        made = _made(versions, label)
        kept = [v for v in versions if v not in made]
        if made and not kept:
            _delete(api, name)
            continue
        for version in made:
            if "default" in version.get("versionAliases", []):
                add_alias(api, VersionName(name, _former_default(kept)), "default")
            _delete(api, f"{name}@{version['versionId']}", method=":deleteVersion")


def _models(api: VertexApi) -> list[str]:
    return [model["name"].partition("@")[0] for model in api.list_resources("models")]


def _made(versions: list[Json], label: tuple[str, str]) -> list[Json]:
    return [version for version in versions if label in version.get("labels", {}).items()]


def _version_of(deployed: Json) -> tuple[str, str]:
    return deployed["model"].partition("@")[0], deployed.get("modelVersionId", "")


def _former_default(versions: list[Json]) -> str:
    previous = [v for v in versions if "previous" in v.get("versionAliases", [])]
    return str((previous or versions)[-1]["versionId"])


def _all_to_newest(deployed: list[Json]) -> dict[str, int] | None:
    if not deployed:
        return None
    newest = max(deployed, key=lambda model: model.get("createTime", ""))
    return {newest["id"]: 100}


def _delete(api: VertexApi, name: str, *, method: str = "") -> None:
    operation = api.delete(name + method)
    api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    logger.info("deleted %s", name)
