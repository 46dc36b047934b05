"""Deployment, undeployment and rollback of model versions by hand."""

from contextlib import ExitStack
from functools import partial

from components.endpoint.deployments import (
    deployed_in,
    find_deployed,
    resources_beside,
    traffic_of,
    undeploy_version,
    version_of,
)
from components.endpoint.ensure import ensured_endpoint
from components.endpoint.traffic import WHOLE, Split, handed_over, with_share
from components.model_version.companions import read_golden
from components.model_version.decisions import decide, is_rejected, last_decision
from components.model_version.history import ROLLBACK, cause_of, history_of
from components.model_version.registry import (
    DEFAULT,
    PREVIOUS,
    add_alias,
    list_versions,
    set_default,
    version_name,
    with_alias,
)
from components.release.options import ServingOptions
from components.release.release import released
from components.run_result.settings import parameters_of
from components.shared.text.json_object import parse_object
from components.shared.vertex.api import VertexApi
from components.shared.vertex.labels import BILLING_LABEL, REJECTED, RUN_LABEL
from components.shared.vertex.resource_name import ResourceName
from pipelines.errors import ResourceError
from pipelines.resources.names import (
    endpoint_of,
    get_version,
    model_name,
    shown_model,
    this_person,
    version_text,
)
from trainer import Json

UNCHECKED = "its predictions were not checked: the version holds no golden.json"
BY_HAND = "by-hand"  # run label of an endpoint that no run created


def deploy_version(
    api: VertexApi,
    name: str,
    *,
    endpoint_name: str,
    percentage: int,
    serving: Json,
) -> list[str]:
    """Deploy MODEL@VERSION to an endpoint, created if missing, and check its predictions.

    The endpoint has the model's name if `endpoint_name` is "". A version deployed alone gets all of
    the traffic. `serving` has settings of its machines (ServingOptions) that the version's run has
    not; {} stands for the machines of the version of the model that the endpoint serves, if it
    does.

    Raises:
        ResourceError: the name has no version.
        StepError: the predictions differ; the endpoint has been restored.
    """
    model = get_version(api, name)
    version = version_name(model)
    golden = read_golden(model)
    move = partial(with_share, percentage=percentage)
    endpoint_name = endpoint_name or model["displayName"]
    with ensured_endpoint(api, endpoint_name, run=BY_HAND) as endpoint:
        resources = resources_beside(endpoint, version)
        if serving or not resources:
            resources = resources_of_run(parameters_of_run(api, model), serving)
        with released(api, endpoint, version, golden=golden, resources=resources, move=move):
            pass
    split = _split_text(api, api.get(endpoint["name"]))
    return [
        f"{version_text(model)} is deployed to {endpoint['displayName']}: {split}",
        *_check_notes(golden, percentage),
    ]


def take_down(api: VertexApi, name: str, *, endpoint_name: str) -> list[str]:
    """Undeploy MODEL@VERSION; the other deployed versions get its traffic.

    Raises:
        ResourceError: the version is not deployed there.
    """
    model = get_version(api, name)
    version = version_name(model)
    endpoint = endpoint_of(api, endpoint_name or model["displayName"])
    if not undeploy_version(api, endpoint, version):
        raise ResourceError(
            f"{name} is not deployed to {endpoint['displayName']}, which serves "
            f"{_split_text(api, endpoint)}"
        )
    split = _split_text(api, api.get(endpoint["name"]))
    return [f"{version_text(model)} is undeployed from {endpoint['displayName']}: {split}"]


def roll_back(api: VertexApi, name: str, *, reason: str = "") -> list[str]:
    """Make a model's previous version the default again, and serve it in place of the default.

    On each endpoint the previous version is deployed on machines as the default has, gets its
    share of the traffic and must return its own golden predictions. Then the alias moves and the
    former default is undeployed.
    An endpoint that had kept the previous version deployed keeps the former default instead.
    If anything fails before the alias moves, the endpoints are restored. The version that is left
    is rejected with the reason: no run promotes the same model again. The default before these two
    is then the previous version, for one more rollback.

    Raises:
        ResourceError: there is no previous version, or it was rejected.
        StepError: the previous version's predictions differ.
    """
    model = model_name(api, name)
    versions = list_versions(api, model)
    current, target = with_alias(versions, DEFAULT), with_alias(versions, PREVIOUS)
    if current is None or target is None or current is target:
        raise ResourceError(
            f"{name} has no version with the alias {PREVIOUS}: no version was promoted before the "
            f"default. To serve any version: trainyard endpoints deploy {name}@VERSION"
        )
    former, version = version_name(current), version_name(target)
    if is_rejected(target):
        raise ResourceError(
            f"{version_text(target)}, the version before the default, was rejected "
            f"{last_decision(target, REJECTED)}; to serve it or"
            f" another one: trainyard models approve {name}@VERSION"
        )
    golden = read_golden(target)
    endpoints = [
        endpoint for endpoint in api.list_resources("endpoints") if _share(endpoint, former)
    ]
    with ExitStack() as stack:
        for endpoint in endpoints:
            move = partial(_hand_over, endpoint, former)
            resources = resources_beside(endpoint, former) or ServingOptions().resources
            stack.enter_context(
                released(api, endpoint, version, golden=golden, resources=resources, move=move)
            )
        set_default(api, version, cause=cause_of(ROLLBACK, reason))
        decide(api, former, REJECTED, by=this_person(), reason=reason)
    if earlier := _last_default(versions, {former, version}):
        add_alias(api, earlier, PREVIOUS)
    for endpoint in endpoints:
        if not find_deployed(endpoint, version):
            undeploy_version(api, api.get(endpoint["name"]), former, is_awaited=False)
    names = ", ".join(endpoint["displayName"] for endpoint in endpoints)
    serving = f"served by {names}" if names else "and no endpoint served the former one"
    return [
        f"the default is {version_text(target)} (before: {former.version}), {serving}",
        f"{version_text(current)} is rejected: no run promotes the same model; to keep the"
        f" default whatever runs find: trainyard models hold {name} --reason TEXT",
        *(_check_notes(golden, WHOLE) if names else []),
    ]


def _last_default(versions: list[Json], other_than: set[ResourceName]) -> ResourceName | None:
    """Return the version that was the default last, of those that are not rejected."""
    usable = {str(one["versionId"]): version_name(one) for one in versions if not is_rejected(one)}
    defaults = (usable.get(entry.version) for entry in reversed(history_of(versions)))
    return next((name for name in defaults if name and name not in other_than), None)


def _hand_over(endpoint: Json, former: ResourceName, split: Split, deployed_id: str) -> Split:
    """Return the split with the shares of a version's deployed models moved to another one."""
    for deployed in endpoint["deployedModels"]:
        if version_of(deployed) == former:
            split = handed_over(split, deployed["id"], deployed_id)
    return split


def _share(endpoint: Json, version: ResourceName) -> int:
    split = traffic_of(endpoint)
    deployed = deployed_in(endpoint)
    return sum(split.get(model["id"], 0) for model in deployed if version_of(model) == version)


def _split_text(api: VertexApi, endpoint: Json) -> str:
    split = traffic_of(endpoint)
    shares = [
        f"{shown_model(api, model['model'])}@{model.get('modelVersionId', '?')}"
        f" {split.get(model['id'], 0)} %"
        for model in deployed_in(endpoint)
    ]
    return ", ".join(shares) or "nothing"


def parameters_of_run(api: VertexApi, version: Json) -> Json:
    """Return the parameters of the run that uploaded a version, {} if it is unknown or deleted.

    On Vertex AI the runs of a schedule share all labels but one.
    """
    labels = version.get("labels", {})
    for label in (BILLING_LABEL, RUN_LABEL):
        if label in labels:
            query = f'labels.{label}="{labels[label]}"'
            for job in api.list_resources("pipelineJobs", filter=query):
                return parameters_of(api.get(job["name"]))
    return {}


def resources_of_run(parameters: Json, serving: Json) -> Json:
    """Return the machines that a run serves on, with the settings `serving` in place of its own."""
    values = parse_object(str(parameters.get("serving") or "{}"), name="serving")
    return ServingOptions(**{**values, **serving}).resources


def _check_notes(golden: Json | None, percentage: int) -> list[str]:
    if not percentage:
        return ["its predictions were not checked: it gets no traffic"]
    return [] if golden else [UNCHECKED]
