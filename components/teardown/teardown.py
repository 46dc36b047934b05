"""Cancels and deletes what a run made, except what it promoted. Safe to call twice."""

import logging
import time
from collections.abc import Callable

from components.endpoint.deployments import find_deployed, undeploy_idle, undeploy_version
from components.labels import RUN_LABEL
from components.model_version.registry import (
    DEFAULT,
    LRO_TIMEOUT_SECONDS,
    PREVIOUS,
    add_alias,
    is_candidate,
    list_versions,
    set_default,
    version_name,
    with_alias,
)
from components.teardown.made import Made
from components.vertex.api import VertexApi, VertexError
from components.vertex.resource_name import ResourceName
from trainer.json_types import Json

logger = logging.getLogger(__name__)

JOB_END_TIMEOUT_SECONDS = 120
FINAL_JOB_STATES = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


class TeardownError(Exception):
    """Something of the run could not be removed; the message lists it all."""


def teardown(api: VertexApi, *, run: str, keep_endpoint: bool = False) -> None:
    """Cancel the run's jobs, undeploy and delete what it made.

    A version that the run promoted is kept, however the run ended; it stays deployed where the
    endpoint is to be kept, or served another version before the run. Any other version is
    undeployed, which gives the traffic back, and deleted. Each part is tried even when one before
    it failed.

    Raises:
        TeardownError: what could not be removed, and why.
    """
    tear_down(Made.by(api, run), keep_endpoint=keep_endpoint)


def tear_down(made: Made, *, keep_endpoint: bool) -> None:
    """Do the same for what a run has made, as it is known."""
    parts: list[Callable[[], None]] = [
        lambda: cancel_jobs(made.api, made.custom_jobs()),
        lambda: settle_versions(made, keep_endpoint=keep_endpoint),
        lambda: delete_endpoints(made),
    ]
    problems = []
    for part in parts:
        try:
            part()
        except (VertexError, TimeoutError, OSError) as error:
            logger.error("a part of the teardown failed: %s", error)
            problems.append(str(error))
    if problems:
        raise TeardownError(f"left behind by run {made.run}: " + "; ".join(problems))


def cancel_jobs(api: VertexApi, jobs: list[Json]) -> None:
    """Cancel the jobs that have not ended, and wait until they have."""
    jobs = [job for job in jobs if job.get("state") not in FINAL_JOB_STATES]
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


def settle_versions(made: Made, *, keep_endpoint: bool) -> None:
    """Keep the version that was promoted; undeploy and delete any other."""
    for found in made.versions:
        version = version_name(found)
        if is_candidate(found):
            _undeploy(made, version)
            _delete_version(made, found)
            continue
        if _is_half_promoted(made.api, found):
            set_default(made.api, version)
        if keep_endpoint or made.served_before:
            _undeploy_replaced(made, version)
        else:
            _undeploy(made, version)


def delete_endpoints(made: Made) -> None:
    """Delete the endpoints that the run created, unless something is deployed to them."""
    for endpoint in made.endpoints:
        if endpoint.get("labels", {}).get(RUN_LABEL) != made.run:
            continue
        try:
            _delete(made.api, endpoint["name"])
        except VertexError as error:
            if error.status != "FAILED_PRECONDITION":
                raise
            logger.info("kept %s: a model is deployed to it", endpoint["name"])


def _undeploy(made: Made, version: ResourceName) -> None:
    """Undeploy a version; GCPC's ModelDeployOp gives a deployed model no label of the run."""
    for endpoint in made.endpoints:
        undeploy_version(made.api, endpoint, version)


def _is_half_promoted(api: VertexApi, found: Json) -> bool:
    """Whether the promotion was interrupted between the version's mark and its alias."""
    if {DEFAULT, PREVIOUS} & set(found.get("versionAliases", [])):
        return False
    default = with_alias(list_versions(api, version_name(found).unversioned), DEFAULT)
    return default is None or int(default["versionId"]) < int(found["versionId"])


def _undeploy_replaced(made: Made, version: ResourceName) -> None:
    """Undeploy what the version has replaced; an interrupted promotion has not come to it."""
    for endpoint in made.endpoints:
        if find_deployed(endpoint, version):
            undeploy_idle(made.api, endpoint["name"], keep=version)


def _delete_version(made: Made, found: Json) -> None:
    """Delete a version; if it is the default, `default` goes back to the one that was."""
    version = version_name(found)
    is_default = DEFAULT in found.get("versionAliases", [])
    others = [found]
    if is_default:
        siblings = list_versions(made.api, version.unversioned)
        others = [one for one in siblings if version_name(one) != version]
    if not others:
        _delete(made.api, version.unversioned)
        return
    if is_default:
        add_alias(made.api, version_name(_former_default(others)), DEFAULT)
    _delete(made.api, version.name, method=":deleteVersion")


def _former_default(versions: list[Json]) -> Json:
    promoted = [version for version in versions if not is_candidate(version)]
    return with_alias(versions, PREVIOUS) or (promoted or versions)[-1]


def _delete(api: VertexApi, name: str, *, method: str = "") -> None:
    operation = api.delete(name + method)
    api.wait(operation, timeout_seconds=LRO_TIMEOUT_SECONDS)
    logger.info("deleted %s", name)
