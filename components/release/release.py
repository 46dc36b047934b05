"""Release of a model version: deployment, traffic and check, undone if one of them fails."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, kw_only=True)
class Release:
    """A version that is to be the default, and how it is served and checked.

    Attributes:
        contest: Its comparison with the default version.
        cause: An entry of the model's history (`history.py`).
        golden, metrics, table_path: As in `predict_golden`.
        resources: Machines of its deployment.
        keep_endpoint: Serve it although the endpoint serves nothing.
        run: The label of a new endpoint.
    """

    contest: Contest
    endpoint_name: str
    options: ReleaseOptions
    cause: str
    golden: Json
    metrics: "Metrics"
    table_path: str
    resources: Json
    keep_endpoint: bool
    run: str

    @property
    def api(self) -> VertexApi:
        """The service."""
        return self.contest.api

    @property
    def version(self) -> ResourceName:
        """The version."""
        return self.contest.version

    def find_endpoint(self) -> Json | None:
        """Return the endpoint, None if there is none."""
        return find_endpoint(self.api, self.endpoint_name)

    def log_requests(self, endpoint: Json) -> None:
        """Log the endpoint's requests, or stop it, as the options say."""
        if (rate := self.options.log_requests) is not None:
            set_request_log(self.api, endpoint, rate=rate, table=self.options.log_table)

    def set_default(self) -> None:
        """Make the version the default, unless a person or another run came before."""
        contest = self.contest
        set_default(
            self.api,
            self.version,
            cause=self.cause,
            reasons=contest.reasons,
            confirm=contest.confirm,
        )

    def undeploy_idle(self, endpoint: str) -> None:
        """Undeploy the other versions without traffic, but the previous one if it is to be kept."""
        keep_previous = self.options.keep_previous
        undeploy_idle(self.api, endpoint, keep=self.version, keep_previous=keep_previous)


def release_version(release: Release) -> None:
    """Promote a deployed version; then undeploy the versions that have no traffic."""
    release.undeploy_idle(promote_deployed(release))


def promote_deployed(release: Release) -> str:
    """Move an endpoint's traffic to a deployed version, and the alias `default`, step by step.

    First it answers logged requests without traffic (replay), then it gets growing shares of
    the traffic, each for a while (canary), then all of it, as the options say. Then it must
    repeat its golden predictions, and becomes the default. Before the traffic moves, and again
    before the alias does, the version must have passed beside the default of that moment. If a
    step fails, the traffic split is restored. Return the endpoint's resource name.

    Raises:
        StepError: The version must not be released; says why.
        VertexError: A request failed.
    """
    api, version, options = release.api, release.version, release.options
    body = release.find_endpoint()
    if body is None:
        name = release.endpoint_name
        raise StepError(f"the endpoint {name} was deleted during the run; start it again")
    endpoint = str(body["name"])
    values = replay_logged(api, body, version, options=options)
    release.log_requests(body)
    with ExitStack() as stack:
        release.contest.check()
        for percentage in options.canary:
            move = partial(with_share, percentage=percentage)
            share = stack.enter_context(moved_traffic(api, endpoint, version, move=move))
            if share == WHOLE:  # it is the only one
                break
            watched = watch(api, endpoint, version, release.golden, options=options)
            for name, count in watched.items():
                values[name] = values.get(name, 0) + count
            release.contest.check()
        stack.enter_context(moved_traffic(api, endpoint, version))
        predict_golden(
            api,
            release.golden,
            endpoint=endpoint,
            version=version,
            metrics=release.metrics,
            table_path=release.table_path,
            values=values,
        )
        release.contest.check()
        release.set_default()
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


def promote_known(release: Release) -> bool:
    """Make a registered version the default; return whether an endpoint serves it.

    It is deployed without traffic and released if the endpoint is to be kept or is serving; if that
    fails, it is undeployed.

    Raises:
        StepError: The version must not be released; says why.
        VertexError: A request failed.
    """
    release.contest.check()
    endpoint = release.find_endpoint()
    if not (release.keep_endpoint or (endpoint and is_serving(endpoint))):
        release.set_default()
        return False
    with (
        ensured_endpoint(release.api, release.endpoint_name, run=release.run) as endpoint,
        released(
            release.api,
            endpoint,
            release.version,
            golden=release.golden,
            resources=release.resources,
            move=partial(with_share, percentage=0),
        ),
    ):
        name = promote_deployed(release)
    release.undeploy_idle(name)  # not in the block: its failure would undeploy the default
    return True


def serve_promoted(release: Release) -> None:
    """Serve a promoted version, if the endpoint is to be kept or is serving; else do nothing.

    Nothing is done either if it is not the default version any more: another run or a person chose
    another one meanwhile. Older versions of the model are undeployed, as the options say.
    """
    api, version, resources = release.api, release.version, release.resources
    endpoint = release.find_endpoint()
    logger.info("the trained model is the same as %s: no new version is registered", version)
    default = default_champion(api, version.unversioned).version
    if default != version.name:
        logger.warning("the default is %s now, which stays in service", default or "no version")
        return
    if not release.keep_endpoint and not (endpoint and is_serving(endpoint)):
        return
    endpoint = endpoint or ensure_endpoint(api, release.endpoint_name, run=release.run)
    release.log_requests(endpoint)
    if traffic_of(endpoint).get(find_deployed(endpoint, version)) == WHOLE:
        scale(api, endpoint, version, resources)
    else:
        with released(api, endpoint, version, golden=release.golden, resources=resources):
            pass
    release.undeploy_idle(endpoint["name"])
