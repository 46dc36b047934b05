"""`trainyard models hold|release|approve|reject` against the real service."""

import json
import re
from functools import partial

import pytest

from components.endpoint.deployments import deploy
from components.endpoint.ensure import ensure_endpoint
from components.errors import StepError
from components.model_version import registry
from components.model_version.champion import default_champion
from components.model_version.decisions import stop_of
from components.model_version.registry import list_versions, set_default
from components.release import release
from components.release.options import ServingOptions
from components.shared.vertex.labels import CANDIDATE, STATE_LABEL, WAITING
from components.shared.vertex.resource_name import ResourceName
from pipelines.exit_codes import INTERRUPTED
from pipelines.resources.names import this_person
from pipelines.serving import decisions
from tests.support.servers.models import aliases, shares, versions


def compared_with(api, version: ResourceName, champion: ResourceName | None) -> None:
    """Record the evaluation of a version, as its run does."""
    metadata = {"champion": champion and {"version": champion.name}}
    evaluation = {"displayName": "test split", "metadata": metadata}
    evaluation["metricsSchemaUri"] = "gs://google-cloud-aiplatform/schema/modelevaluation/x.yaml"
    api.post(f"{version.name}/evaluations:import", {"modelEvaluation": evaluation})


@pytest.fixture
def waiting(version):
    """Upload a version that waits for an approval."""
    return partial(version, state=WAITING)


@pytest.fixture
def first(api, version):
    """Upload a version and deploy it, with all the traffic."""
    found = version()
    name = ensure_endpoint(api, "tiny", run="r")["name"]
    deploy(api, name, found, resources=ServingOptions().resources)
    return found


def test_an_approved_version_gets_the_traffic_and_becomes_the_default(
    api, first, waiting, trainyard
):
    compared_with(api, waiting(), first)

    code, output, error = trainyard("models", "approve", "tiny@2", "--reason", "seen by sales")

    assert (code, output) == (0, "the default is tiny@2, served by tiny\n"), error
    assert (aliases(api), shares(api)) == ({"1": ["previous"], "2": ["default"]}, {"2": 100})
    code, output, _ = trainyard("models", "history", "tiny", "--json")
    decision, default = json.loads(output)[:2]
    assert (decision["cause"], decision["by"]) == ("approved", this_person())
    assert decision["reasons"] == "seen by sales"
    assert (default["cause"], default["reasons"]) == ("approved", "auc 0.8 is at least 0.7")
    code, _, error = trainyard("models", "approve", "tiny@2")
    assert code == 2
    assert "tiny@2 is the default version; to leave it: trainyard models rollback tiny" in error


@pytest.mark.parametrize("is_promoted", [False, True], ids=["after the alias", "while undeploying"])
def test_an_approval_that_is_interrupted_leaves_the_default_served(
    api, first, waiting, trainyard, monkeypatch, *, is_promoted
):
    compared_with(api, waiting(), first)
    add_alias = registry.add_alias

    def interrupted(*arguments, **_):
        if not is_promoted:
            add_alias(*arguments)
        if is_promoted or arguments[-1] == "default":
            monkeypatch.setattr(registry, "add_alias", add_alias)
            raise KeyboardInterrupt

    module, function = (release, "undeploy_idle") if is_promoted else (registry, "add_alias")
    monkeypatch.setattr(module, function, interrupted)
    assert trainyard("models", "approve", "tiny@2")[0] == INTERRUPTED

    expected = {"1": 0, "2": 100} if is_promoted else {"1": 100}
    assert shares(api) == expected
    assert default_champion(api, first.unversioned).version.endswith("2" if is_promoted else "1")
    state = versions(api)["2"]["labels"][STATE_LABEL]
    assert state == ("promoted" if is_promoted else WAITING)


@pytest.mark.parametrize(
    ("function", "code"),
    [("deploy", 1), ("promote_deployed", 1), ("deploy", 0)],
    ids=["two servers", "one server", "both succeed"],
)
def test_two_approvals_at_once_leave_one_server(
    api, first, waiting, trainyard, monkeypatch, *, function, code
):
    compared_with(api, waiting(), first)
    original = getattr(release, function)

    def beside_another(*arguments, **options):
        monkeypatch.setattr(release, function, original)
        assert trainyard("models", "approve", "tiny@2")[0] == 0
        if code:
            monkeypatch.setattr(release, "promote_deployed", failing)
        return getattr(release, function)(*arguments, **options)

    def failing(*_, **__):
        raise StepError("another version is the default now")

    monkeypatch.setattr(release, function, beside_another)

    assert trainyard("models", "approve", "tiny@2")[0] == code

    assert (aliases(api)["2"], shares(api)) == (["default"], {"2": 100})
    [endpoint] = api.list_resources("endpoints")
    assert len(endpoint["deployedModels"]) == 1


def test_without_a_serving_endpoint_only_the_alias_moves(api, waiting, trainyard):
    waiting()
    assert not default_champion(api, waiting().unversioned).version

    assert trainyard("models", "approve", "tiny@2")[0] == 0

    assert aliases(api) == {"1": [], "2": ["default"]}
    assert list(api.list_resources("endpoints")) == []


def test_an_approved_version_that_fails_its_check_changes_nothing(api, first, waiting, trainyard):
    compared_with(api, waiting(is_right=False), first)

    code, _, error = trainyard("models", "approve", "tiny@2")

    assert code == 1
    assert "offline" in error
    assert (aliases(api), shares(api)) == ({"1": ["default"], "2": []}, {"1": 100})
    assert versions(api)["2"]["labels"][STATE_LABEL] == WAITING
    assert "by" not in versions(api)["2"]["versionDescription"]


def test_a_version_that_was_not_compared_with_the_default_is_not_approved(
    api, version, waiting, trainyard
):
    first = version()
    for _ in range(2):
        compared_with(api, waiting(), first)
    assert trainyard("models", "approve", "tiny@2")[0] == 0

    code, _, error = trainyard("models", "approve", "tiny@3")

    assert code == 1
    assert "tiny@3 was compared with version 1, and version 2 is the default now" in error
    assert "--uncompared" in error
    assert aliases(api)["2"] == ["default"]
    assert trainyard("models", "approve", "tiny@3", "--uncompared")[0] == 0
    assert aliases(api)["3"] == ["default"]


def test_a_held_model_keeps_its_default_until_it_is_released(api, version, waiting, trainyard):
    first = version()
    compared_with(api, waiting(), first)

    code, output, _ = trainyard("models", "hold", "tiny", "--reason", "Jahres-Abschluß, 5 %")

    assert code == 0
    assert "tiny is held at version 1: no run promotes another one" in output
    stop = stop_of(list_versions(api, first.unversioned), "any")
    assert stop.startswith(f"held: by {this_person()} at 20")
    assert stop.endswith(": Jahres-Abschluß, 5 %")
    code, _, error = trainyard("models", "approve", "tiny@2")
    assert code == 1
    assert "not promoted, held: by" in error
    assert aliases(api)["1"] == ["default"]

    assert trainyard("models", "set-default", "tiny@2")[0] == 0, "a command may move it"
    code, _, error = trainyard("models", "delete", "tiny@1")
    assert code == 2
    assert "end the hold first: trainyard models release tiny" in error
    assert trainyard("models", "release", "tiny")[0] == 0
    assert stop_of(list_versions(api, first.unversioned), "any") == ""
    code, _, error = trainyard("models", "release", "tiny")
    assert code == 2
    assert "tiny is not held" in error
    history = trainyard("models", "history", "tiny")[1]
    assert "held: Jahres-Abschluß, 5 %" in history
    assert "released" in history


@pytest.mark.parametrize("state", [CANDIDATE, WAITING])
def test_a_model_without_a_promoted_version_cannot_be_held(version, trainyard, state):
    version(state=state)

    code, _, error = trainyard("models", "hold", "tiny", "--reason", "x")

    assert code == 2
    assert "no promoted version to hold; " in error
    assert "release.approval=required" in error


def test_a_version_that_is_approved_and_rejected_at_once_has_one_state(
    api, version, waiting, trainyard, monkeypatch
):
    first, second = version(digest="1"), waiting(digest="2")
    compared_with(api, second, first)
    decide, update = decisions.decide, registry.update_version

    def approved_before(*arguments, **options):
        monkeypatch.setattr(decisions, "decide", decide)
        assert trainyard("models", "approve", "tiny@2")[0] == 0
        decide(*arguments, **options)

    def rejected_after(*arguments):
        monkeypatch.setattr(registry, "update_version", update)
        update(*arguments)
        decide(api, ResourceName.from_name(second.name), "rejected", by="ann@desk", reason="no")

    monkeypatch.setattr(decisions, "decide", approved_before)
    code, _, error = trainyard("models", "reject", "tiny@2", "--reason", "x")
    assert (code, "tiny@2 is the default version; to leave it" in error) == (2, True)
    assert api.get(second.name)["labels"][STATE_LABEL] == "promoted"

    assert trainyard("models", "rollback", "tiny", "--reason", "bad")[0] == 0
    monkeypatch.setattr(registry, "update_version", rejected_after)
    code, _, error = trainyard("models", "approve", "tiny@2", "--uncompared")
    assert (code, "not promoted, rejected" in error) == (1, True)
    assert api.get(second.name)["labels"][STATE_LABEL] == "rejected"
    assert aliases(api)["1"] == ["default"]


def test_a_rejected_version_stays_with_its_reason_and_can_be_approved(
    api, version, waiting, trainyard
):
    first = version(digest="1")
    compared_with(api, waiting(digest="2"), first)

    code, output, _ = trainyard("models", "reject", "tiny@2", "--reason", "Wrong for Größe > 5!")

    assert code == 0
    assert output.startswith("tiny@2 is rejected: no run promotes the same model")
    all_versions = list_versions(api, first.unversioned)
    assert stop_of(all_versions, "2").endswith(": Wrong for Größe > 5!")
    assert stop_of(all_versions, "1") == ""
    code, _, error = trainyard("models", "reject", "tiny@1", "--reason", "x")
    assert code == 2
    assert "trainyard models rollback tiny" in error
    assert trainyard("models", "approve", "tiny@2", "--reason", "as intended")[0] == 0
    assert aliases(api)["2"] == ["default"]
    assert stop_of(list_versions(api, first.unversioned), "2") == ""
    history = trainyard("models", "history", "tiny")[1]
    assert "rejected: Wrong for Größe > 5!" in history
    assert "approved: as intended" in history


def test_a_rollback_rejects_the_version_that_it_leaves(api, version, waiting, trainyard):
    first = version()
    set_default(api, waiting(digest="2"))

    code, output, _ = trainyard("models", "rollback", "tiny", "--reason", "fares too low")

    assert code == 0
    assert "tiny@2 is rejected: no run promotes the same model" in output
    assert "trainyard models hold tiny --reason TEXT" in output
    stop = stop_of(list_versions(api, first.unversioned), "2")
    assert re.match(
        r"rejected: the model is that of version 2 \(to promote it: .*@2\), rejected by ", stop
    )
    assert stop.endswith(": fares too low")


@pytest.mark.parametrize("verb", ["hold", "reject"])
def test_a_decision_that_stops_runs_needs_a_reason(trainyard, capsys, verb):
    with pytest.raises(SystemExit):
        trainyard("models", verb, "tiny@1")

    assert "--reason" in capsys.readouterr().err
