"""Release of a model version: deployment, traffic and check, undone if one of them fails."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from components.endpoint.deployments import (
    Move,
    deploy,
    find_deployed,
    is_serving,
    moved_traffic,
    scale,
    traffic_of,
    undeploy_idle,
    undeploy_own,
)
from components.endpoint.ensure import ensure_endpoint, ensured_endpoint, find_endpoint
from components.endpoint.predict.step import check_version, predict_golden
from components.endpoint.request_log import set_request_log
from components.endpoint.traffic import WHOLE, all_to, with_share
from components.errors import StepError
from components.model_version.champion import check_registered, default_champion
from components.model_version.registry import DEFAULT, set_default
from components.release.canary import watch
from components.release.options import ReleaseOptions
from components.release.overlap import Contest
from components.release.replay import replay_logged
from components.shared.vertex.api import VertexApi
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

if TYPE_CHECKING:
    from kfp.dsl import Metrics

logger = logging.getLogger(__name__)


def release_version(
    api: VertexApi, version: ResourceName, *, options: ReleaseOptions, **promotion: Any
) -> None:
    """Promote a deployed version; then undeploy the versions that have no traffic.

    The previous one is kept if the options say so. The arguments are as in `promote_deployed`.
    """
    endpoint = promote_deployed(api, version, options=options, **promotion)
    undeploy_idle(api, endpoint, keep=version, keep_previous=options.keep_previous)


def promote_deployed(
    api: VertexApi,
    version: ResourceName,
    *,
    endpoint_name: str,
    contest: Contest,
    options: ReleaseOptions,
    cause: str,
    golden: Json,
    metrics: "Metrics",
    table_path: str,
) -> str:
    """Move an endpoint's traffic to a deployed version, and the alias `default`, step by step.

    First it answers logged requests without traffic (replay), then it gets growing shares of
    the traffic, each for a while (canary), then all of it, as the options say. Then it must
    repeat its golden predictions, and becomes the default. Before the traffic moves, and again
    before the alias does, the version must have passed beside the default of that moment. If a
    step fails, the traffic split is restored. `contest` is its comparison with the default
    version, `cause` an entry of the model's history (`history.py`). `golden`, `metrics` and
    `table_path` are as in `predict_golden`. Return the endpoint's resource name.

    Raises:
        StepError: The version must not be released; says why.
        VertexError: A request failed.
    """
    body = find_endpoint(api, endpoint_name)
    if body is None:
        raise StepError(f"the endpoint {endpoint_name} was deleted during the run; start it again")
    endpoint = str(body["name"])
    values = replay_logged(api, body, version, options=options)
    _log_requests(api, body, options)
    with ExitStack() as stack:
        contest.check()
        for percentage in options.canary_shares:
            move = partial(with_share, percentage=percentage)
            share = stack.enter_context(moved_traffic(api, endpoint, version, move=move))
            if share == WHOLE:  # it is the only one
                break
            for name, count in watch(api, endpoint, version, golden, options=options).items():
                values[name] = values.get(name, 0) + count
            contest.check()
        stack.enter_context(moved_traffic(api, endpoint, version))
        predict_golden(
            api,
            golden,
            endpoint=endpoint,
            version=version,
            metrics=metrics,
            table_path=table_path,
            values=values,
        )
        contest.check()
        set_default(api, version, cause=cause, reasons=contest.reasons, confirm=contest.confirm)
    return endpoint


@contextmanager
def released(
    api: VertexApi,
    endpoint: Json,
    version: ResourceName,
    *,
    golden: Json | None,
    resources: Json,
    move: Move = all_to,
) -> Iterator[None]:
    """Deploy a version or scale it, give it traffic and check its predictions.

    If that or the block fails, the endpoint is restored; but another process may have promoted the
    version meanwhile, and given its server traffic: then it stays. Without golden predictions, or
    without traffic, nothing but the server's health is checked, which the deployment does itself.

    Raises:
        InputError: A file of the version differs from its digest; nothing is deployed.
        StepError: The version does not repeat its golden predictions.
        VertexError: The deployment or a request failed.
    """
    name = endpoint["name"]
    deployed_id, was_default = "", False
    if not find_deployed(endpoint, version):
        record = api.get(version.name)
        check_registered(record)
        was_default = _is_default(record)
        deployed_id = deploy(api, name, version, resources=resources)
    try:
        scale(api, endpoint, version, resources)
        with moved_traffic(api, name, version, move=move) as share:
            if golden and share:
                check_version(api, name, version, golden, percentage=share)
            yield
    except BaseException:
        if deployed_id and (
            was_default
            or not _is_default(api.get(version.name))
            or not traffic_of(api.get(name)).get(deployed_id)
        ):
            undeploy_own(api, name, deployed_id)
        raise


def _is_default(record: Json) -> bool:
    return DEFAULT in record.get("versionAliases", [])


def promote_known(
    api: VertexApi,
    version: ResourceName,
    *,
    endpoint_name: str,
    resources: Json,
    keep_endpoint: bool,
    run: str,
    contest: Contest,
    options: ReleaseOptions,
    golden: Json,
    **promotion: Any,
) -> bool:
    """Make a registered version the default; return whether an endpoint serves it.

    It is deployed without traffic and released if the endpoint is to be kept or is serving; if that
    fails, it is undeployed. The arguments are as in `promote_deployed`; `run` is the label of a new
    endpoint.

    Raises:
        StepError: The version must not be released; says why.
        VertexError: A request failed.
    """
    contest.check()
    endpoint = find_endpoint(api, endpoint_name)
    if not (keep_endpoint or (endpoint and is_serving(endpoint))):
        cause = promotion["cause"]
        set_default(api, version, cause=cause, reasons=contest.reasons, confirm=contest.confirm)
        return False
    no_traffic = partial(with_share, percentage=0)
    with (
        ensured_endpoint(api, endpoint_name, run=run) as endpoint,
        released(api, endpoint, version, golden=golden, resources=resources, move=no_traffic),
    ):
        name = promote_deployed(
            api,
            version,
            endpoint_name=endpoint_name,
            contest=contest,
            options=options,
            golden=golden,
            **promotion,
        )
    # Not in the block: its failure would undeploy the default.
    undeploy_idle(api, name, keep=version, keep_previous=options.keep_previous)
    return True


def serve_promoted(
    api: VertexApi,
    version: ResourceName,
    *,
    endpoint_name: str,
    resources: Json,
    keep_endpoint: bool,
    run: str,
    golden: Json,
    options: ReleaseOptions,
) -> None:
    """Serve a promoted version, if the endpoint is to be kept or is serving; else do nothing.

    Nothing is done either if it is not the default version any more: another run or a person chose
    another one meanwhile. Older versions of the model are undeployed, as the options say.
    """
    endpoint = find_endpoint(api, endpoint_name)
    logger.info("the trained model is the same as %s: no new version is registered", version)
    default = default_champion(api, version.unversioned).version
    if default != version.name:
        logger.warning("the default is %s now, which stays in service", default or "no version")
        return
    if not keep_endpoint and not (endpoint and is_serving(endpoint)):
        return
    endpoint = endpoint or ensure_endpoint(api, endpoint_name, run=run)
    _log_requests(api, endpoint, options)
    if traffic_of(endpoint).get(find_deployed(endpoint, version)) == WHOLE:
        scale(api, endpoint, version, resources)
    else:
        with released(api, endpoint, version, golden=golden, resources=resources):
            pass
    undeploy_idle(api, endpoint["name"], keep=version, keep_previous=options.keep_previous)


def _log_requests(api: VertexApi, endpoint: Json, options: ReleaseOptions) -> None:
    if options.log_requests is not None:
        set_request_log(api, endpoint, rate=options.log_requests, table=options.log_table)
