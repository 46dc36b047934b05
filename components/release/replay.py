"""Replay: a new version and the one that serves answer the same logged requests.

On Vertex AI a deployed model without traffic cannot get requests, and the servers of an endpoint
are as far away as the network is slow. So both versions are served beside the step, as in
`evaluate`, and answer in turns: what slows this machine down slows both.
"""

import itertools
import json
import logging
import math
import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from typing import Any

from components.endpoint.deployments import busiest, deployed_in, traffic_of, version_of
from components.endpoint.predict.parity import differences
from components.endpoint.request_log import is_logging, read_logged
from components.errors import StepError
from components.evaluate.server.server import TimedClient, serving
from components.model_version.registry import trust_of
from components.release.canary import is_above
from components.release.options import ReleaseOptions
from components.shared.text.value_text import count_not_finite
from components.shared.vertex.api import VertexApi
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

logger = logging.getLogger(__name__)

MIN_REQUESTS = 30  # fewer cannot tell a model that is twice as slow from the machine's noise
NUM_WARM_UP = 5
HALF = 0.5


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of a server to one request; without predictions it is an error."""

    predictions: list[Any] | None = None
    milliseconds: float = math.inf
    error: str = ""


Pair = tuple[Answer, Answer]  # of the new version, and of the one that serves


def replay_logged(
    api: VertexApi, endpoint: Json, version: ResourceName, *, options: ReleaseOptions
) -> dict[str, float]:
    """Replay the last logged requests of an endpoint; return measurements, {} without a replay.

    There is no replay if it is switched off, no other version serves, too few requests are logged,
    or this trainer's prediction server cannot serve the other version.

    Raises:
        StepError: The new version fails, answers otherwise, or is slower than is allowed.
    """
    serving_version = _serving_version(endpoint, version)
    if not options.replay or serving_version is None or not is_logging(endpoint):
        return {}
    logged = read_logged(api, endpoint["name"], last=options.replay)
    instances = [one.instances for one in logged if one.is_ok and one.instances]
    if len(instances) < MIN_REQUESTS:
        logger.info(
            "no replay: %d requests are logged, %d are needed", len(instances), MIN_REQUESTS
        )
        return {}
    with ExitStack() as stack:
        try:
            serving_url = stack.enter_context(_served(api, serving_version))
        except StepError as error:
            logger.warning("no replay: %s cannot be served here: %s", serving_version, error)
            return {}
        new_url = stack.enter_context(_served(api, version))
        pairs = answer_in_turns(instances, new_url=new_url, serving_url=serving_url)
    values = measurements(pairs, max_change=options.max_change)
    logger.info(
        "replayed %d requests of %s: %d of %d answers differ from those of %s; the latency is %.2f "
        "times its latency (median)",
        len(pairs),
        endpoint["displayName"],
        values["num_changed"],
        values["num_answers"],
        serving_version,
        values["slowdown"],
    )
    if problems := judge(pairs, options=options):
        raise StepError(f"replay of {len(pairs)} logged requests: {'; '.join(problems)}")
    return values


def answer_in_turns(requests: Sequence[list[Any]], *, new_url: str, serving_url: str) -> list[Pair]:
    """Send each request's instances to both servers, which take turns in being first."""
    with closing(TimedClient(new_url)) as new, closing(TimedClient(serving_url)) as other:
        for instances in requests[:NUM_WARM_UP]:
            _ask(new, instances)
            _ask(other, instances)
        pairs = []
        for number, instances in enumerate(requests):
            if number % 2:
                ours = _ask(new, instances)
                pairs.append((ours, _ask(other, instances)))
            else:
                theirs = _ask(other, instances)
                pairs.append((_ask(new, instances), theirs))
    return pairs


def judge(pairs: Sequence[Pair], *, options: ReleaseOptions) -> list[str]:
    """Return the reasons to reject the new version, each beyond chance (`is_above`).

    Latencies are compared in pairs, by a sign test of the median ratio: it is above `max_slowdown`
    if more than half of the requests, beyond chance, take that many times as long. A few requests
    that the machine delayed cannot decide it.
    """
    reasons = []
    answered = _answered(pairs)
    judged = [(new, old) for new, old in pairs if old.predictions is not None]
    failed = [error for pair in judged if (error := _failure(pair))]
    num_judged = len(judged)
    if is_above(len(failed), num_judged, limit=options.max_error_rate):
        reasons.append(
            f"{len(failed)} of {num_judged} failed, more than release.max_error_rate="
            f"{options.max_error_rate:g} allows: {failed[0]}"
        )
    changed = _changed(answered, max_change=options.max_change)
    if options.max_changed is not None and is_above(
        sum(changed), len(changed), limit=options.max_changed
    ):
        reasons.append(
            f"{sum(changed)} of {len(changed)} answers changed, more than release.max_changed="
            f"{options.max_changed:g} allows"
        )
    ratios = _ratios(answered)
    slower = sum(ratio > options.max_slowdown for ratio in ratios)
    if is_above(slower, len(ratios), limit=HALF):
        reasons.append(
            f"its median latency is {statistics.median(ratios):.2f} times that of the version that "
            f"serves, more than release.max_slowdown={options.max_slowdown:g} allows"
        )
    return reasons


def measurements(pairs: Sequence[Pair], *, max_change: float) -> dict[str, float]:
    """Return the numbers of a replay, for the step's metrics."""
    answered = _answered(pairs)
    changed = _changed(answered, max_change=max_change)
    ratios = _ratios(answered)
    return {
        "num_replayed": len(pairs),
        "num_replay_errors": sum(bool(_failure(pair)) for pair in pairs),
        "num_answers": len(changed),
        "num_changed": sum(changed),
        "slowdown": statistics.median(ratios) if ratios else 1.0,
    }


def is_changed(new: Any, old: Any, *, max_change: float) -> bool:
    """Return whether two predictions are different answers.

    Predictions with a class or labels are compared by those only. Others differ if any value does,
    a number by more than `max_change`, relative to the number if that is above 1.
    """
    if isinstance(new, dict) and isinstance(old, dict):
        for field in ("label", "labels"):
            if field in new and field in old:
                return bool(new[field] != old[field])
    try:
        found = differences(new, old, instance="")
        return any(difference > max_change for _, difference, _ in found)
    except StepError:
        return True


def _serving_version(endpoint: Json, version: ResourceName) -> ResourceName | None:
    models = deployed_in(endpoint)
    other = busiest(endpoint, [model for model in models if version_of(model) != version])
    has_traffic = other and traffic_of(endpoint).get(other["id"])
    return version_of(other) if has_traffic else None


def _served(api: VertexApi, name: ResourceName) -> AbstractContextManager[str]:
    version = api.get(name.name)
    return serving(str(version.get("artifactUri", "")), trust=trust_of(version))


def _ask(client: TimedClient, instances: list[Any]) -> Answer:
    try:
        data, milliseconds = client.ask(json.dumps({"instances": instances}).encode())
    except StepError as error:
        return Answer(error=str(error))
    predictions = _predictions_in(data)
    if len(predictions) != len(instances):
        return Answer(error=f"{len(predictions)} predictions for {len(instances)} instances")
    return Answer(predictions=predictions, milliseconds=milliseconds)


def _predictions_in(data: bytes) -> list[Any]:
    try:
        found = json.loads(data)["predictions"]
    except (ValueError, TypeError, KeyError):
        return []
    return found if isinstance(found, list) else []


def _answered(pairs: Sequence[Pair]) -> list[Pair]:
    return [
        (new, old)
        for new, old in pairs
        if new.predictions is not None and old.predictions is not None
    ]


def _failure(pair: Pair) -> str:
    """Return the error of the new version, also for a null that the other one does not have."""
    new, old = pair
    num_bad = count_not_finite(new.predictions or [])
    if new.error or num_bad <= count_not_finite(old.predictions or []):
        return new.error
    return f"predictions that are not finite numbers, such as {new.predictions!r:.200}"


def _changed(answered: Sequence[Pair], *, max_change: float) -> list[bool]:
    both = [zip(new.predictions or [], old.predictions or [], strict=True) for new, old in answered]
    return [
        is_changed(*pair, max_change=max_change) for pair in itertools.chain.from_iterable(both)
    ]


def _ratios(answered: Sequence[Pair]) -> list[float]:
    return [new.milliseconds / old.milliseconds for new, old in answered]
