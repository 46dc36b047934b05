"""Teardown of a run; may be repeated."""

import logging
import time
from collections.abc import Callable

from components.endpoint.deployments import find_deployed, undeploy_idle, undeploy_version
from components.errors import StepError
from components.model_version.decisions import stop_of, update_version
from components.model_version.history import cause_of, history_of, without_event
from components.model_version.registry import (
    DEFAULT,
    PREVIOUS,
    add_alias,
    is_candidate,
    list_versions,
    set_default,
    version_name,
    was_promoted,
    with_alias,
)
from components.shared.vertex.api import VertexApi
from components.shared.vertex.creations import await_operations
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import MODEL_LABEL, PROMOTED, RUN_LABEL, label_of
from components.shared.vertex.resource_name import ResourceName
from components.teardown.run_resources import RunResources
from trainer import Json

logger = logging.getLogger(__name__)

JOB_END_TIMEOUT_SECONDS = 120
FINAL_JOB_STATES = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


def tear_down(resources: RunResources, *, keep_endpoint: bool = False) -> None:
    """Cancel and delete everything a run created, except the model version it promoted.

    A promoted version is kept even if the run failed later. It stays deployed if the endpoint is to
    be kept, or served another version before the run. Any other version is undeployed, which
    returns its traffic, and deleted. If one of these actions fails, the others are still tried.

    First the operations that a lost task began are ended. While one goes on nothing is deleted: a
    deployment that completes after its version is gone would be found by nobody.

    Raises:
        StepError: Something could not be removed; lists it with the reasons.
    """
    problems = _try([lambda: cancel_jobs(resources.api, resources.custom_jobs())])
    unfinished = _try([lambda: end_operations(resources)])
    problems += unfinished or _try(
        [
            lambda: settle_versions(resources, keep_endpoint=keep_endpoint),
            lambda: settle_known(resources),
            lambda: delete_endpoints(resources),
        ]
    )
    if problems:
        raise StepError(f"teardown of run {resources.run} is incomplete: " + "; ".join(problems))


def _try(actions: list[Callable[[], None]]) -> list[str]:
    """Run actions, each though an earlier one may have failed; return the errors."""
    problems = []
    for action in actions:
        try:
            action()
        except (VertexError, OSError) as error:  # a TimeoutError is an OSError
            logger.error("teardown: %s", error)
            problems.append(str(error))
    return problems


def end_operations(resources: RunResources) -> None:
    """End the operations of lost tasks: cancel those on the run's own endpoint, await all.

    On an endpoint or a model that existed before, they may be another run's.

    Raises:
        TimeoutError: One has not ended in time; names it.
    """
    for name in sorted(resources.unsettled()):
        await_operations(resources.api, name, is_cancelled=name == resources.own_endpoint)


def cancel_jobs(api: VertexApi, jobs: list[Json]) -> None:
    """Cancel the jobs that have not ended, and wait for their end."""
    jobs = [job for job in jobs if job.get("state") not in FINAL_JOB_STATES]
    for job in jobs:
        logger.info("cancelling the job %s", job["name"])
        api.post(f"{job['name']}:cancel", {})
    deadline = time.monotonic() + JOB_END_TIMEOUT_SECONDS
    for job in jobs:
        while api.get(job["name"]).get("state") not in FINAL_JOB_STATES:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{job['name']} has not ended {JOB_END_TIMEOUT_SECONDS} s after cancellation"
                )
            time.sleep(max(0.2, api.min_poll_seconds))


def settle_versions(resources: RunResources, *, keep_endpoint: bool) -> None:
    """Keep the promoted version and those that people decide about; undeploy any other.

    A candidate is deleted, also one whose promotion was interrupted and which a person's decision
    does not allow to complete.
    """
    for record in resources.versions:
        version = version_name(record)
        is_half_promoted = _is_half_promoted(resources.api, record)
        is_refused = is_half_promoted and _is_stopped(resources.api, record)
        if is_refused or not was_promoted(record):
            _undeploy(resources, version)
            if is_refused or is_candidate(record):
                _delete_version(resources, record)
            continue
        if is_half_promoted:
            set_default(resources.api, version, cause=cause_of(PROMOTED, resources.run))
        if keep_endpoint or resources.served_before:
            _undeploy_replaced(resources, version)
        else:
            _undeploy(resources, version)


def settle_known(resources: RunResources) -> None:
    """Undo the promotion of a registered version that a lost task had begun, or complete it."""
    api, record = resources.api, resources.half_served
    if record is None:
        return
    version = version_name(record)
    versions = list_versions(api, version.unversioned)
    if version == version_name(with_alias(versions, DEFAULT) or record):
        _undeploy_replaced(resources, version)
        return
    _undeploy(resources, version)
    if history_of(versions)[-1].version == version.version:  # the label is set before the alias
        update_version(api, version, lambda now: {"labels": without_event(now["labels"])})


def delete_endpoints(resources: RunResources) -> None:
    """Delete the endpoints that the run created, unless a model is deployed to them."""
    for endpoint in resources.endpoints:
        if label_of(endpoint, RUN_LABEL) != resources.run:
            continue
        try:
            _delete(resources.api, endpoint["name"])
        except VertexError as error:
            if error.status != "FAILED_PRECONDITION":
                raise
            logger.info("kept %s: a model is deployed to it", endpoint["name"])


def _undeploy(resources: RunResources, version: ResourceName) -> None:
    """Undeploy a version; it is found by name, as GCPC's ModelDeployOp copies no labels."""
    for endpoint in resources.endpoints:
        undeploy_version(resources.api, endpoint, version)


def _is_half_promoted(api: VertexApi, record: Json) -> bool:
    """Return whether the promotion was interrupted between its label and its alias."""
    if not was_promoted(record) or {DEFAULT, PREVIOUS} & set(record.get("versionAliases", [])):
        return False
    versions = list_versions(api, record["name"])
    default = with_alias(versions, DEFAULT)
    if default is None:
        return True
    latest = history_of(versions)[-1].version  # of the labels, which are set before the alias
    return latest == str(record["versionId"]) != str(default["versionId"])


def _is_stopped(api: VertexApi, record: Json) -> bool:
    """Return whether a person's decision does not allow to promote the version."""
    versions = list_versions(api, record["name"])
    return bool(stop_of(versions, label_of(record, MODEL_LABEL)))


def _undeploy_replaced(resources: RunResources, version: ResourceName) -> None:
    """Undeploy the versions that this one replaced; an interrupted promotion leaves them."""
    for endpoint in resources.endpoints:
        if find_deployed(endpoint, version):
            undeploy_idle(
                resources.api,
                endpoint["name"],
                keep=version,
                keep_previous=resources.release_options.keep_previous,
            )


def _delete_version(resources: RunResources, record: Json) -> None:
    """Delete a version; if it is the default, the alias returns to the former default."""
    version = version_name(record)
    is_default = DEFAULT in record.get("versionAliases", [])
    remaining = [record]
    if is_default:
        siblings = list_versions(resources.api, version.unversioned)
        remaining = [sibling for sibling in siblings if version_name(sibling) != version]
    if not remaining:
        _delete(resources.api, version.unversioned)
        return
    if is_default:
        add_alias(resources.api, version_name(_former_default(remaining)), DEFAULT)
    _delete(resources.api, version.name, method=":deleteVersion")


def _former_default(versions: list[Json]) -> Json:
    promoted = [version for version in versions if was_promoted(version)]
    return with_alias(versions, PREVIOUS) or (promoted or versions)[-1]


def _delete(api: VertexApi, name: str, *, method: str = "") -> None:
    operation = api.delete(name + method)
    api.wait(operation)
    logger.info("deleted %s", name)
