"""The step: compares an endpoint's logged requests with the training data and earlier requests."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from components.endpoint.deployments import busiest, deployed_in, version_of
from components.endpoint.ensure import find_endpoint
from components.endpoint.request_log import LoggedRequest, is_logging, read_logged
from components.endpoint.watch.comparison import (
    BEFORE,
    TRAINING,
    FeatureFinding,
    compare,
    not_finite,
)
from components.endpoint.watch.instances import check_watchable, describe
from components.endpoint.watch.options import WatchOptions
from components.errors import StepError
from components.model_version.companions import STATISTICS_FILE, read_companion_object
from components.model_version.registry import trust_of
from components.model_version.saved_model import DESCRIPTION
from components.shared.text.value_text import count_not_finite
from components.shared.vertex.api import VertexApi
from trainer import Json
from trainer.workloads import Workload
from trainer.workloads.description import UntrustedCodeError, read_description

logger = logging.getLogger(__name__)

OK, ALERT, TOO_FEW = "ok", "alert", "too-few"
VERDICT_LABEL = "trainyard_watch"  # of an endpoint: the result of its last watch, for the console


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Result of a watch.

    Attributes:
        version: resource name of the model version with most of the traffic.
        verdict: OK, ALERT, or TOO_FEW if there are too few instances to compare.
        first, last: times of the first and the last of these requests, RFC 3339.
        findings: of each feature, the largest distance first, skew before drift.
        notes: what could not be compared.
    """

    endpoint: str
    version: str
    verdict: str
    num_instances: int
    first: str = ""
    last: str = ""
    findings: tuple[FeatureFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> list[FeatureFinding]:
        """The findings beyond their limits."""
        return [finding for finding in self.findings if not finding.is_ok]

    @property
    def words(self) -> str:
        """The result in words."""
        if self.verdict == TOO_FEW:
            return "; ".join(self.notes)
        if self.verdict == OK:
            return f"{self.num_instances:,} instances are like the training data and those before"
        return "; ".join(
            f"{finding.verdict} of {finding.feature}: {finding.distance} {finding.value:.3f} >"
            f" {finding.limit:.3g} ({finding.words})"
            for finding in self.changed
        )

    def to_json(self) -> str:
        """Return the content of the result's artifact."""
        findings = [finding.to_json() for finding in self.findings]
        return (
            json.dumps({**asdict(self), "words": self.words, "findings": findings}, indent=2) + "\n"
        )


def watch(api: VertexApi, endpoint_name: str, options: WatchOptions | None = None) -> Watch:
    """Compare the last requests of an endpoint with the training data and those before them.

    Raises:
        StepError: there is no such endpoint, it serves nothing or logs no requests, or its
            requests have no statistics.
    """
    options = options or WatchOptions()
    endpoint = find_endpoint(api, endpoint_name)
    if endpoint is None:
        raise StepError(f"there is no endpoint {endpoint_name!r}")
    if not is_logging(endpoint):
        raise StepError(f"{endpoint_name} logs no requests, so there is nothing to compare")
    version = served_version(endpoint)
    model = api.get(version)
    logged = [
        request
        for request in read_logged(api, endpoint["name"], last=2 * options.last)
        if request.is_ok
    ]
    workload = read_workload(model)
    check_watchable(workload)
    return _judged(
        logged, model, workload, options, endpoint=endpoint["displayName"], version=version
    )


def _judged(
    logged: Sequence[LoggedRequest],
    model: Json,
    workload: Workload,
    options: WatchOptions,
    *,
    endpoint: str,
    version: str,
) -> Watch:
    window, before = logged[: options.last], logged[options.last :]
    now, num_unreadable = _statistics(window, workload)
    size = now["num_examples"]
    notes = [f"{num_unreadable:,} instances are unreadable"] if num_unreadable else []
    facts = {
        "endpoint": endpoint,
        "version": version,
        "num_instances": size,
        "first": window[-1].time if window else "",
        "last": window[0].time if window else "",
    }
    if size < options.min_instances:
        few = f"{size:,} instances are logged, of at least {options.min_instances:,} to compare"
        return Watch(verdict=TOO_FEW, notes=(few, *notes), **facts)
    findings: list[FeatureFinding] = []
    uri = model.get("artifactUri", "")
    content = read_companion_object(uri, STATISTICS_FILE, "splits.train.features")
    if content is None:
        notes.append(f"{version} has no {STATISTICS_FILE} of its training data")
    else:
        train = content["splits"]["train"]
        findings += compare(train, now, against=TRAINING, thresholds=options.thresholds)
    earlier, _ = _statistics(before, workload)
    if earlier["num_examples"] >= options.min_instances:
        findings += compare(earlier, now, against=BEFORE, thresholds=options.thresholds)
    else:
        notes.append("too few earlier instances to compare with")
    if num_bad := _num_not_finite(window, workload):
        findings.append(not_finite(num_bad, size))
    if not findings:
        return Watch(verdict=TOO_FEW, notes=tuple(notes), **facts)
    verdict = OK if all(finding.is_ok for finding in findings) else ALERT
    return Watch(verdict=verdict, findings=tuple(findings), notes=tuple(notes), **facts)


def served_version(endpoint: Json) -> str:
    """Return the resource name of the version with most of an endpoint's traffic.

    Raises:
        StepError: no model is deployed.
    """
    deployed = busiest(endpoint, deployed_in(endpoint))
    if not deployed:
        raise StepError(f"no model is deployed to {endpoint['displayName']}")
    return version_of(deployed).name


def read_workload(version: Json) -> Workload:
    """Return the workload of a model version from the description beside its model.

    Raises:
        StepError: another program has exported the model, or its code is not trusted.
    """
    model_uri = version.get("artifactUri", "")
    content = read_companion_object(model_uri, DESCRIPTION, "workload")
    if content is None:
        raise StepError(
            f"the model in {model_uri or 'no folder'} has no {DESCRIPTION}: it was exported by"
            " another program, and the types of its requests are unknown"
        )
    try:
        return read_description(content, trusts_code=trust_of(version).code)
    except UntrustedCodeError as error:
        raise StepError(f"{model_uri}/{DESCRIPTION}: {error}, to models upload") from error


def record(api: VertexApi, result: Watch) -> None:
    """Label the endpoint with the result, which lists and the console show."""
    endpoint = find_endpoint(api, result.endpoint)
    if endpoint is None:
        return
    names = {finding.verdict for finding in result.changed}
    text = "-and-".join(sorted(names)) if names else result.verdict
    labels = {**endpoint.get("labels", {}), VERDICT_LABEL: text}
    api.patch(f"{endpoint['name']}?updateMask=labels", {"labels": labels})


def _num_not_finite(logged: Sequence[LoggedRequest], workload: Workload) -> int:
    """Return the number of predictions with a null, which stands for a number that is not finite.

    A hook of the workload may return null for its own reasons.
    """
    if workload.postprocess is not None:
        return 0
    return sum(
        count_not_finite(prediction) > 0 for request in logged for prediction in request.predictions
    )


def _statistics(logged: Sequence[LoggedRequest], workload: Workload) -> tuple[Json, int]:
    whole = [request for request in logged if len(request.instances) == len(request.predictions)]
    instances = [instance for request in whole for instance in request.instances]
    predictions = [prediction for request in whole for prediction in request.predictions]
    return describe(instances, predictions, workload)
