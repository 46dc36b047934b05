"""Canary: a share of the traffic for a new version, watched until it is over."""

import dataclasses
import logging
import math
import time
from collections.abc import Mapping
from typing import Any

from components.endpoint.deployments import find_deployed, server_states
from components.endpoint.predict.parity import check_parity, request_predictions
from components.endpoint.request_log import is_logging, read_logged
from components.errors import StepError
from components.release.options import ReleaseOptions
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from trainer import Json

logger = logging.getLogger(__name__)

PROBE_SECONDS = 0.2
READ_SECONDS = 5.0  # between two readings of the log and of the server's state
NUM_LOGGED = 1000
SERVER_ERROR = 500
# Probability of a false alarm: a share at its limit is taken for a larger one this often.
CHANCE = 0.01
# The errors are tested many times in a canary, so one test must have fewer false alarms.
CANARY_CHANCE = 0.001


def watch(
    api: VertexApi,
    endpoint: str,
    version: ResourceName,
    golden: Mapping[str, Any],
    *,
    options: ReleaseOptions,
) -> dict[str, float]:
    """Watch a version that gets a share of the traffic; return measurements.

    The golden instances are sent repeatedly. The endpoint's log, if there is one, and the state of
    the version's server, if the service reports it, are read every few seconds. An error of an
    endpoint does not name the version, only the log does. So the errors of the golden requests are
    compared with all golden requests: they show a failing version only if its share of the traffic
    is well above `max_error_rate`, but they never blame it for rare errors of the others.

    Raises:
        StepError: More requests failed than `max_error_rate` allows, the server has restarted, or
            a prediction differs from the golden one.
    """
    watched = _Watched(api, api.get(endpoint), version)
    probing = dataclasses.replace(api, max_attempts=1)
    num_probes = num_answered = num_errors = 0
    last_error = ""
    deadline = time.monotonic() + options.canary_seconds
    next_read = time.monotonic() + READ_SECONDS
    while (now := time.monotonic()) < deadline:
        num_probes += 1
        try:
            response = request_predictions(probing, endpoint, golden["instances"])
        except VertexError as error:
            num_errors, last_error = num_errors + 1, str(error)
        else:
            if response.model_version == version.version:
                check_parity(response.predictions, golden["predictions"], golden["labels"])
                num_answered += 1
        _check(num_errors, num_probes, last_error, options=options)
        if now >= next_read:
            watched.check(options)
            next_read = now + READ_SECONDS
        time.sleep(min(PROBE_SECONDS, max(0.0, deadline - time.monotonic())))
    watched.check(options)
    logger.info(
        "canary: %d answers of %s, %d errors, in %g s",
        num_answered,
        version,
        num_errors,
        options.canary_seconds,
    )
    return {"num_canary_answers": num_answered, "num_canary_errors": num_errors}


class _Watched:
    def __init__(self, api: VertexApi, endpoint: Json, version: ResourceName) -> None:
        self._api, self._name = api, endpoint["name"]
        self._is_logging = is_logging(endpoint)
        self._deployed_id = find_deployed(endpoint, version)
        self._restarts = self._num_restarts()

    def check(self, options: ReleaseOptions) -> None:
        """Raise StepError if the server has restarted or too many logged requests failed.

        The version got no request before its canary, so all its logged requests are the canary's.
        """
        if self._num_restarts() > self._restarts:
            raise StepError("canary: the prediction server of the new version exited; see its log")
        if not self._is_logging:
            return
        logged = read_logged(self._api, self._name, last=NUM_LOGGED)
        ours = [one for one in logged if one.deployed_model_id == self._deployed_id]
        failed = [one for one in ours if one.status >= SERVER_ERROR]
        error = f"status {failed[0].status}" if failed else ""
        _check(len(failed), len(ours), error, options=options)

    def _num_restarts(self) -> int:
        """Return the restarts of the server, with a pending one; 0 if the service reports none."""
        state = server_states(self._api, self._name).get(self._deployed_id, {})
        is_down = state.get("state") in ("RESTARTING", "CRASH_LOOP")
        return int(state.get("restarts", 0)) + is_down


def _check(num_errors: int, total: int, error: str, *, options: ReleaseOptions) -> None:
    if is_above(num_errors, total, limit=options.max_error_rate, chance=CANARY_CHANCE):
        raise StepError(
            f"canary: {num_errors} of {total} requests failed, more than release.max_error_rate="
            f"{options.max_error_rate:g} allows: {error}"
        )


def is_above(count: int, total: int, *, limit: float, chance: float = CHANCE) -> bool:
    """Return whether `count` of `total` are evidence of a share above `limit`.

    They are if a share of exactly `limit` would give as many, or more, with a probability below
    `chance`: a one-sided exact binomial test.
    """
    if count <= limit * total:
        return False
    return _probability_of(count, total, share=limit) < chance


def _probability_of(count: int, total: int, *, share: float) -> float:
    """Return the probability of `count` or more of `total`, each with the probability `share`."""
    if share <= 0 or share >= 1:
        return float(share >= 1 or count <= 0)
    logs = (
        math.lgamma(total + 1)
        - math.lgamma(k + 1)
        - math.lgamma(total - k + 1)
        + k * math.log(share)
        + (total - k) * math.log1p(-share)
        for k in range(count, total + 1)
    )
    return math.fsum(map(math.exp, logs))
