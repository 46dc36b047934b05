"""Runs that ended without their teardown, because their exit task was lost as well."""

import logging
from collections.abc import Iterator

from components.endpoint.deployments import deployed_in, find_deployed, version_of
from components.errors import StepError
from components.model_version.registry import is_candidate, version_name
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import RUN_LABEL, SCHEDULE_LABEL, label_of
from components.shared.vertex.resource_name import ResourceName
from components.teardown.run_resources import RunResources
from components.teardown.teardown import FINAL_JOB_STATES, tear_down
from trainer import Json

logger = logging.getLogger(__name__)

SUCCEEDED = "PIPELINE_STATE_SUCCEEDED"
LOST_STATES = ("PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")
NUM_EARLIER = 20  # runs of a schedule that a teardown looks at


def lost_runs(api: VertexApi) -> Iterator[RunResources]:
    """Yield the runs that ended without their teardown; lists omit the tasks of a run."""
    query = " OR ".join(f'state="{state}"' for state in LOST_STATES)
    for record in api.list_resources("pipelineJobs", filter=query, readMask="name"):
        resources = RunResources.of_run(api, ResourceName.from_name(record["name"]).id)
        if resources.is_lost:
            yield resources


def left_by(resources: RunResources) -> list[str]:
    """Return in words what the teardown of a run would cancel, undeploy and delete."""
    jobs = [job for job in resources.custom_jobs() if job.get("state") not in FINAL_JOB_STATES]
    left = [f"job {ResourceName.from_name(job['name'])}" for job in jobs]
    removed = {}
    for record in resources.versions:
        version = version_name(record)
        shown = f"{record['displayName']}@{version.version}"
        if is_candidate(record):
            left.append(f"version {shown}")
        elif resources.keep_endpoint or resources.served_before:
            continue
        removed[version] = shown
    for endpoint in resources.endpoints:
        name = endpoint["displayName"]
        left += [
            f"{shown} on {name}"
            for version, shown in removed.items()
            if find_deployed(endpoint, version)
        ]
        still_deployed = [
            deployed_model
            for deployed_model in deployed_in(endpoint)
            if version_of(deployed_model) not in removed
        ]
        if label_of(endpoint, RUN_LABEL) == resources.run and not still_deployed:
            left.append(f"endpoint {name}")
    return left


def tear_down_earlier(api: VertexApi, job: Json) -> list[str]:
    """Tear down the lost runs of a run's schedule since the last one with a teardown.

    Returns:
        The failures, one line each.
    """
    schedule = label_of(job, SCHEDULE_LABEL)
    if not schedule:
        return []
    newest = api.get(
        f"{api.parent}/pipelineJobs",
        filter=f'labels.{SCHEDULE_LABEL}="{schedule}"',
        orderBy="create_time desc",
        pageSize=str(NUM_EARLIER),
        readMask="name,state",
    )
    problems = []
    for record in newest.get("pipelineJobs", []):
        if record["name"] == job["name"] or record.get("state") not in (*LOST_STATES, SUCCEEDED):
            continue
        resources = RunResources.of_run(api, ResourceName.from_name(record["name"]).id)
        if not resources.is_lost:
            break
        logger.info("run %s ended without its teardown, which follows", resources.run)
        try:
            tear_down(resources, keep_endpoint=resources.keep_endpoint)
        except StepError as error:
            problems.append(str(error))
    return problems
