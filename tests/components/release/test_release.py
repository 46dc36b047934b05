"""Canary and replay of a new version on the real service, with tiny prediction servers."""

import json
import time
from contextlib import contextmanager, nullcontext

import pytest
from kfp.dsl import Metrics

from components.endpoint.deployments import (
    deploy,
    find_deployed,
    undeploy_idle,
    undeploy_version,
)
from components.endpoint.ensure import ensure_endpoint
from components.endpoint.predict.parity import request_predictions
from components.endpoint.request_log import LoggedRequest
from components.errors import StepError
from components.evaluate.thresholds import Judgement
from components.model_version import registry
from components.model_version.champion import default_champion
from components.model_version.decisions import HELD, RELEASED, decide
from components.model_version.history import cause_of
from components.model_version.registry import set_default
from components.release import canary, release, replay
from components.release.options import ReleaseOptions, ServingOptions
from components.release.overlap import Contest
from components.release.release import Release, release_version
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import (
    CANDIDATE,
    MODEL_LABEL,
    PROMOTED,
    REJECTED,
    STATE_LABEL,
)
from components.shared.vertex.resource_name import ResourceName
from tests.support.servers.models import shares, upload_version
from vertex_local.tests.support.http_server import Handler, serving
from vertex_local.tests.support.service import container_spec, running_service

RIGHT = {"class": 0, "label": "a", "probabilities": [0.75, 0.25]}  # of the tiny server's `classes`
GOLDEN = {"instances": [{"x": 1}], "predictions": [RIGHT], "labels": ["a"]}
LOGGED = [
    LoggedRequest(time="", deployed_model_id="1", instances=[number], predictions=[number])
    for number in range(60)
]


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """Return a client of a service on which version 1 of `tiny` is served."""
    root = tmp_path_factory.mktemp("release") / "vertex"
    with running_service(root) as service, pytest.MonkeyPatch.context() as patch:
        patch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
        _, project, _, location = service.parent.split("/")
        api = connect(project, location)
        first = upload(api, "classes")
        deploy(
            api,
            ensure_endpoint(api, "tiny", run="r")["name"],
            first,
            resources=ServingOptions().resources,
        )
        yield api


def upload(api, *words: str, **labels: str) -> ResourceName:
    """Upload a version of `tiny`."""
    model = {"displayName": "tiny", "containerSpec": container_spec(*words), "labels": labels}
    return upload_version(api, model)


def endpoint_of(api) -> dict:
    [endpoint] = api.list_resources("endpoints")
    return endpoint


@contextmanager
def deployed(api, *words: str):
    """Deploy a new version for as long as the block lasts; version 1 has the traffic before."""
    version = upload(api, *words, **{STATE_LABEL: CANDIDATE})
    name = endpoint_of(api)["name"]
    first = version.with_version(1)
    deploy(api, name, version, resources=ServingOptions().resources)
    try:
        yield version
    finally:
        if not find_deployed(endpoint_of(api), first):
            deploy(api, name, first, resources=ServingOptions().resources)
        split = {find_deployed(endpoint_of(api), first): 100}
        api.patch(f"{name}?updateMask=trafficSplit", {"trafficSplit": split})
        set_default(api, first)
        undeploy_version(api, endpoint_of(api), version)
        undeploy_idle(api, name, keep=first)


def unexpected(default) -> Judgement:
    raise AssertionError(f"compared with {default}")


def put(
    api, version: ResourceName, tmp_path, prediction=RIGHT, /, *, judge=unexpected, **options
) -> dict[str, float]:
    """Release a version that was compared with version 1; return the measurements."""
    metrics = Metrics(name="metrics", uri=str(tmp_path / "metrics.json"))
    champion = version.with_version(1).name
    release_version(
        Release(
            contest=Contest(api, version, champion=champion, reasons="as ever", judge=judge),
            endpoint_name=endpoint_of(api)["displayName"],
            options=ReleaseOptions(keep_previous=True, **options),
            cause=cause_of(PROMOTED, "r"),
            golden={**GOLDEN, "predictions": [prediction]},
            metrics=metrics,
            table_path=str(tmp_path / "table.md"),
            resources=ServingOptions().resources,
            keep_endpoint=False,
            run="r",
        )
    )
    return metrics.metadata


def test_without_options_all_traffic_moves_at_once(api, tmp_path):
    with deployed(api, "classes") as version:
        values = put(api, version, tmp_path)

        assert shares(api) == {"1": 0, version.version: 100}
    assert not {"num_canary_answers", "num_replayed"} & set(values)


def test_a_canary_gets_a_share_and_then_all(api, tmp_path, monkeypatch):
    seen = []
    predict = canary.request_predictions

    def recorded(*arguments):
        seen.append(shares(api))
        return predict(*arguments)

    monkeypatch.setattr(canary, "request_predictions", recorded)
    monkeypatch.setattr(canary, "PROBE_SECONDS", 0.02)
    with deployed(api, "classes") as version:
        values = put(api, version, tmp_path, canary=["40"], canary_seconds=0.2)

        assert seen[0] == seen[-1] == {"1": 60, version.version: 40}
        assert shares(api) == {"1": 0, version.version: 100}
    assert 0 < values["num_canary_answers"] <= len(seen)
    assert values["num_canary_errors"] == 0


@pytest.mark.parametrize(
    ("words", "golden", "problem"),
    [
        (("failing",), RIGHT, r"release\.max_error_rate=0\.01 allows: .*the model fails"),
        (("classes",), {**RIGHT, "class": 1}, "class is 0 online, 1 offline"),
    ],
    ids=["errors", "other predictions"],
)
def test_a_canary_that_spends_its_budget_is_rolled_back(
    api, tmp_path, monkeypatch, *, words, golden, problem
):
    monkeypatch.setattr(canary, "PROBE_SECONDS", 0.01)
    with deployed(api, *words) as version:
        with pytest.raises(StepError, match=problem):  # long before the canary would end
            put(api, version, tmp_path, golden, canary=["50"], canary_seconds=1000)

        assert shares(api) == {"1": 100, version.version: 0}


def test_a_server_that_restarts_and_logged_errors_end_a_canary(api, tmp_path, monkeypatch):
    options = ReleaseOptions(canary=["50"], canary_seconds=0.1)
    with deployed(api, "classes") as version:
        endpoint = endpoint_of(api)
        deployed_id = find_deployed(endpoint, version)
        states = [{}, {deployed_id: {"state": "RESTARTING", "restarts": 0}}]
        monkeypatch.setattr(canary, "server_states", lambda *_: states.pop(0))
        with pytest.raises(StepError, match="server of the new version exited"):
            canary.watch(api, endpoint["name"], version, GOLDEN, options=options)
        monkeypatch.setattr(canary, "server_states", lambda *_: {})
        failed = LoggedRequest(
            time="", deployed_model_id=deployed_id, instances=[], predictions=[], status=500
        )
        monkeypatch.setattr(canary, "is_logging", lambda _: True)
        monkeypatch.setattr(canary, "read_logged", lambda *_, last: [failed] * 3 + LOGGED)
        with pytest.raises(StepError, match=r"3 of 3 requests failed.*status 500"):
            canary.watch(api, endpoint["name"], version, GOLDEN, options=options)


@pytest.fixture
def replayed(monkeypatch):
    """Replace the log, and the servers beside the step by one that answers `label(instance)`."""

    def do(label, *, logged=LOGGED, slow_seconds: float = 0.0) -> None:
        class Answering(Handler):
            protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

            def do_POST(self) -> None:
                instances = json.loads(self.body())["instances"]
                is_new = self.path == "/new"
                time.sleep(slow_seconds * is_new)
                labels = [label(one) if is_new else "a" for one in instances]
                body = {"predictions": [{"label": one} for one in labels]}
                self.respond(200, json.dumps(body).encode())

        @contextmanager
        def beside(uri):
            with serving(Answering) as host:
                yield f"http://{host}/{'old' if uri.endswith('/1') else 'new'}"

        monkeypatch.setattr(replay, "is_logging", lambda _: True)
        monkeypatch.setattr(replay, "read_logged", lambda *_, last: logged[:last])
        monkeypatch.setattr(replay, "_served", lambda _, version: beside(f"/{version.version}"))

    return do


def test_a_replay_without_differences_is_measured(api, tmp_path, replayed):
    replayed(lambda _: "a")
    with deployed(api, "classes") as version:
        values = put(api, version, tmp_path, max_changed=0, max_slowdown=20)

        assert shares(api)[version.version] == 100
    assert (values["num_replayed"], values["num_changed"]) == (60, 0)


def test_changed_answers_stop_a_version_before_it_gets_traffic(
    api, tmp_path, replayed, monkeypatch
):
    replayed(lambda instance: "b" if instance == 7 else "a")
    monkeypatch.setattr(release, "moved_traffic", None)
    with deployed(api, "classes") as version:
        with pytest.raises(StepError, match=r"replay of 60 .*: 1 of 60 answers changed"):
            put(api, version, tmp_path, max_changed=0, max_slowdown=20)

        assert shares(api) == {"1": 100, version.version: 0}


def test_a_slow_version_is_stopped(api, tmp_path, replayed):
    replayed(lambda _: "a", logged=LOGGED[:30], slow_seconds=0.05)
    with (
        deployed(api, "classes") as version,
        pytest.raises(StepError, match=r"more than release\.max_slowdown=1\.25 allows"),
    ):
        put(api, version, tmp_path)


def test_too_few_requests_or_none_are_not_replayed(api, tmp_path, replayed):
    replayed(lambda _: "b", logged=LOGGED[:10])
    with deployed(api, "classes") as version:
        assert "num_replayed" not in put(api, version, tmp_path, max_changed=0)
    replayed(lambda _: "b")
    with deployed(api, "classes") as version:
        assert "num_replayed" not in put(api, version, tmp_path, max_changed=0, replay=0)


def test_a_version_that_cannot_be_served_beside_the_step_is_not_compared(
    api, tmp_path, replayed, monkeypatch, caplog
):
    replayed(lambda _: "b")

    @contextmanager
    def failing(uri):
        raise StepError("exited")
        yield

    monkeypatch.setattr(replay, "_served", lambda *_: failing("/1"))
    with deployed(api, "classes") as version:
        assert "num_replayed" not in put(api, version, tmp_path, max_changed=0)
    assert "1 cannot be served here: exited" in caplog.text


def test_the_previous_version_stays_deployed_if_asked(api):
    with deployed(api, "classes") as second, deployed(api, "classes") as third:
        name = endpoint_of(api)["name"]
        for version in (second, third):
            set_default(api, version)

        undeploy_idle(api, name, keep=third.with_version(1), keep_previous=True)

        assert shares(api) == {"1": 100, second.version: 0}
        assert request_predictions(api, name, [{}]).model_version == "1"


def test_a_canary_goes_in_steps_each_of_which_is_watched(api, tmp_path, monkeypatch):
    seen = []

    def watched(*_, **__):
        seen.append(shares(api))
        return {"num_canary_answers": 2}

    monkeypatch.setattr(release, "watch", watched)
    with deployed(api, "classes") as version:
        values = put(api, version, tmp_path, canary="10,25,50")

        assert [one[version.version] for one in seen] == [10, 25, 50]
        assert [one["1"] for one in seen] == [90, 75, 50]
        assert shares(api) == {"1": 0, version.version: 100}
    assert values["num_canary_answers"] == 6


def test_a_failing_step_of_a_canary_restores_the_traffic(api, tmp_path, monkeypatch):
    def watched(*_, **__):
        if min(shares(api).values()) == 25:
            raise StepError("too many errors")
        return {}

    monkeypatch.setattr(release, "watch", watched)
    with deployed(api, "classes") as version:
        with pytest.raises(StepError, match="too many errors"):
            put(api, version, tmp_path, canary="10,25,50")

        assert shares(api) == {"1": 100, version.version: 0}


@pytest.mark.parametrize(
    ("moment", "kind"),
    [
        ("traffic", HELD),
        ("in the canary", REJECTED),
        ("check", HELD),
        ("alias", REJECTED),
        ("after the alias", HELD),
        ("after the alias", REJECTED),
    ],
)
def test_a_decision_that_a_person_makes_during_a_release_prevails(
    api, tmp_path, monkeypatch, moment, kind
):
    with deployed(api, "classes") as version:
        first = version.with_version(1)
        before = api.get(version.name)["labels"]
        labels = {**before, MODEL_LABEL: version.version}  # stands for a digest
        api.patch(f"{version.name}?updateMask=labels", {"labels": labels})

        module, name = {
            "traffic": (release, "replay_logged"),
            "in the canary": (release, "watch"),
            "check": (release, "predict_golden"),
            "alias": (registry, "_record"),
            "after the alias": (registry, "add_alias"),
        }[moment]
        step, is_after = getattr(module, name), module is registry

        def deciding(*arguments, **options):
            if is_after:
                step(*arguments, **options)
            decide(api, first if kind == HELD else version, kind, by="ann@desk", reason="no")
            return None if is_after else step(*arguments, **options)

        monkeypatch.setattr(module, name, deciding)
        with pytest.raises(StepError, match=rf"not promoted, {kind}: .*by ann@desk at .*: no"):
            put(api, version, tmp_path, canary="50", canary_seconds=0.1)
        monkeypatch.undo()
        monkeypatch.setenv(EMULATOR_VARIABLE, api.base_url.removeprefix("http://"))

        assert shares(api) == {"1": 100, version.version: 0}
        assert default_champion(api, version.unversioned).version == first.name
        state = api.get(version.name)["labels"][STATE_LABEL]
        assert state == (REJECTED if kind == REJECTED else CANDIDATE)
        assert "previous" not in api.get(first.name)["versionAliases"]
        decide(api, first, RELEASED, by="ann@desk", reason="")


@contextmanager
def promoted_meanwhile(api, monkeypatch, *, moment: str):
    """Let another run promote a version at a moment of the next release; yield that version."""
    other = upload(api, "classes")
    if moment == "before the traffic moves":
        set_default(api, other)
        yield other
        return
    name = {"in the canary": "watch", "before the alias moves": "predict_golden"}[moment]
    step = getattr(release, name)

    def overtaken(*arguments, **options):
        set_default(api, other)
        return step(*arguments, **options)

    monkeypatch.setattr(release, name, overtaken)
    yield other


@pytest.mark.parametrize(
    ("moment", "is_better"),
    [
        ("before the traffic moves", False),
        ("in the canary", False),
        ("in the canary", True),
        ("before the alias moves", False),
        ("before the alias moves", True),
    ],
)
def test_a_version_replaces_a_new_default_only_if_it_is_better(
    api, tmp_path, monkeypatch, *, moment, is_better
):
    reason = f"accuracy is 0.1 {'better' if is_better else 'worse'}"
    judgement = Judgement(is_passed=is_better, reasons=(reason,))
    with (
        deployed(api, "classes") as version,
        promoted_meanwhile(api, monkeypatch, moment=moment) as other,
    ):
        compared = []
        refused = pytest.raises(StepError, match=f"version {other.version} became .* {reason}")
        with nullcontext() if is_better else refused:
            put(
                api,
                version,
                tmp_path,
                judge=lambda default: compared.append(default.version) or judgement,
                canary=["50"],
                canary_seconds=0.1,
            )

        assert compared == [other.name]
        assert shares(api)[version.version] == 100 * is_better
        default = version if is_better else other
        assert default_champion(api, version.unversioned).version == default.name
        if is_better:
            assert api.get(version.name)["versionDescription"] == reason
