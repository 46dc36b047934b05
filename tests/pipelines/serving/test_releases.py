"""`trainyard endpoints deploy|undeploy` and `models rollback|delete` against the real service."""

import json
import re
from functools import partial

import pytest

from components.endpoint.deployments import moved_traffic
from components.endpoint.traffic import with_share
from components.model_version.champion import find_known
from components.model_version.companions import GOLDEN_FILE, RUN_DIGESTS_FILE
from components.model_version.history import cause_of
from components.model_version.registry import list_versions, set_default
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import (
    CANDIDATE,
    PROMOTED,
    RUN_LABEL,
    STATE_LABEL,
)
from pipelines.resources.names import this_person
from pipelines.serving.releases import deploy_version, resources_of_run
from tests.support.servers.models import aliases, shares


@pytest.fixture
def two_defaults(api, version):
    """Upload two versions; each was the default, the second one is."""
    for _ in range(2):
        set_default(api, version())


def test_versions_are_deployed_with_a_share_and_undeployed(api, version, trainyard):
    version()
    version()

    assert trainyard("endpoints", "deploy", "tiny@1")[0] == 0
    assert shares(api) == {"1": 100}
    assert trainyard("endpoints", "deploy", "tiny@2", "--traffic", "10")[0] == 0
    assert shares(api) == {"1": 90, "2": 10}
    assert trainyard("endpoints", "deploy", "tiny@2", "--traffic", "60")[0] == 0
    assert shares(api) == {"1": 40, "2": 60}
    assert trainyard("endpoints", "undeploy", "tiny@1")[0] == 0
    assert shares(api) == {"2": 100}
    code, _, error = trainyard("endpoints", "undeploy", "tiny@1")
    assert code == 2
    assert "tiny@1 is not deployed to tiny" in error


def test_failed_check_of_a_deployment_changes_nothing(api, version, trainyard):
    version()
    version(is_right=False)
    trainyard("endpoints", "deploy", "tiny@1")

    code, _, error = trainyard("endpoints", "deploy", "tiny@2")

    assert code == 1
    assert "offline" in error
    assert len(error.splitlines()) == 1
    assert shares(api) == {"1": 100}


@pytest.mark.parametrize("word", ["unhealthy", "classes"], ids=["in flight", "done"])
def test_an_interrupted_deployment_leaves_nothing(api, version, monkeypatch, word):
    version(words=(word,))
    wait = VertexApi.wait
    interrupted = []

    def interrupt(self, operation, **arguments):
        if "DeployModel" in operation["metadata"]["@type"] and not interrupted:
            interrupted.append(operation["name"])
            raise KeyboardInterrupt
        return wait(self, operation, **arguments)

    monkeypatch.setattr(VertexApi, "wait", interrupt)

    with pytest.raises(KeyboardInterrupt):
        deploy_version(api, "tiny@1", endpoint_name="", percentage=100, serving={})

    assert interrupted
    assert list(api.list_resources("endpoints")) == []


def test_a_deployment_whose_request_is_interrupted_leaves_nothing(
    api, version, monkeypatch, tmp_path
):
    version()
    deploy_version(api, "tiny@1", endpoint_name="", percentage=100, serving={})
    hold = tmp_path / "hold"
    hold.touch()
    version(words=("classes", f"hold={hold}"))
    post = VertexApi.post
    sent = []

    def interrupt(self, path, body, **arguments):
        response = post(self, path, body, **arguments)
        if path.endswith(":deployModel"):
            sent.append(response["name"])
            hold.unlink()  # the server starts now
            raise KeyboardInterrupt
        return response

    monkeypatch.setattr(VertexApi, "post", interrupt)

    with pytest.raises(KeyboardInterrupt):
        deploy_version(api, "tiny@2", endpoint_name="", percentage=100, serving={})

    [operation] = sent
    assert api.get(operation)["done"]
    assert shares(api) == {"1": 100}


def test_deployment_without_a_check_is_reported(api, version, trainyard, service):
    first = version()
    assert trainyard("endpoints", "deploy", "tiny@1")[0] == 0
    version()

    code, output, _ = trainyard("endpoints", "deploy", "tiny@2", "--traffic", "0")
    assert (code, shares(api)) == (0, {"1": 100, "2": 0})
    assert "not checked" in output

    for name in (GOLDEN_FILE, RUN_DIGESTS_FILE):
        (service.root / "models" / first.unversioned.rpartition("/")[2] / "1" / name).unlink()
    trainyard("endpoints", "undeploy", "tiny@1")
    code, output, _ = trainyard("endpoints", "deploy", "tiny@1")
    assert (code, shares(api)) == (0, {"2": 0, "1": 100})
    assert GOLDEN_FILE in output


@pytest.mark.usefixtures("two_defaults")
def test_rollback_moves_alias_deployment_and_traffic(api, trainyard):
    trainyard("endpoints", "deploy", "tiny@2")

    assert trainyard("models", "rollback", "tiny@1")[0] == 2
    code, output, _ = trainyard("models", "rollback", "tiny")

    assert code == 0
    assert "the default is tiny@1 (before: 2)" in output
    assert aliases(api) == {"1": ["default"], "2": ["previous"]}
    assert shares(api) == {"1": 100}
    code, _, error = trainyard("models", "rollback", "tiny")
    assert code == 2, "a second rollback would serve what the first one left"
    assert re.search(r"tiny@2, .* was rejected by \S+@.* models approve tiny@VERSION", error)
    code, output, _ = trainyard("models", "approve", "tiny@2", "--uncompared")
    assert (code, output) == (0, "the default is tiny@2, served by tiny\n")
    assert (aliases(api)["2"], shares(api)) == (["default"], {"2": 100})


def test_a_second_rollback_goes_to_the_default_before(api, version, trainyard):
    for _ in range(3):
        set_default(api, version())

    assert trainyard("models", "rollback", "tiny")[0] == 0
    assert aliases(api) == {"1": ["previous"], "2": ["default"], "3": []}
    assert trainyard("models", "rollback", "tiny")[0] == 0
    assert aliases(api)["1"] == ["default"]
    assert trainyard("models", "rollback", "tiny")[0] == 2


def resources(api) -> list[tuple]:
    """Return machine type, least and most replicas and targets of each deployed model."""
    [endpoint] = api.list_resources("endpoints")
    found = [one["dedicatedResources"] for one in endpoint["deployedModels"]]
    return [
        (
            one["machineSpec"]["machineType"],
            one["minReplicaCount"],
            one["maxReplicaCount"],
            [spec["target"] for spec in one.get("autoscalingMetricSpecs", [])],
        )
        for one in found
    ]


@pytest.mark.usefixtures("two_defaults")
def test_machines_are_set_by_hand_and_outlast_a_rollback(api, trainyard):
    settings = ("min_replicas=2", "max_replicas=5", "machine=n1-standard-8", "cpu_target=70")
    flags = [word for text in settings for word in ("--serving", text)]

    assert trainyard("endpoints", "deploy", "tiny@2", *flags)[0] == 0
    assert resources(api) == [("n1-standard-8", 2, 5, [70])]
    assert trainyard("models", "rollback", "tiny")[0] == 0

    assert (shares(api), resources(api)) == ({"1": 100}, [("n1-standard-8", 2, 5, [70])])
    assert trainyard("endpoints", "deploy", "tiny@2", "--traffic", "10")[0] == 0
    assert resources(api) == [("n1-standard-8", 2, 5, [70])] * 2


@pytest.mark.usefixtures("two_defaults")
def test_a_rollback_to_a_deployed_version_keeps_both_and_scales_it(api, trainyard):
    trainyard("endpoints", "deploy", "tiny@1")
    trainyard("endpoints", "deploy", "tiny@2", "--serving", "min_replicas=2")

    assert trainyard("models", "rollback", "tiny")[0] == 0

    assert (aliases(api)["1"], shares(api)) == (["default"], {"1": 100, "2": 0})
    assert resources(api) == [("n1-standard-4", 2, 2, [])] * 2


def test_a_deployed_version_is_scaled_and_keeps_its_machine(api, version, trainyard, caplog):
    version()
    trainyard("endpoints", "deploy", "tiny@1")
    change = ("--serving", "max_replicas=3", "--serving", "machine=n1-standard-8")

    assert trainyard("endpoints", "deploy", "tiny@1", *change)[0] == 0

    assert resources(api) == [("n1-standard-4", 1, 3, [])]
    assert "@1 stays on the machine that it has, {'machineType': 'n1-standard-4'}" in caplog.text


def test_what_cannot_be_done_is_named(version, trainyard):
    version()
    assert trainyard("reproduce", "tiny@1")[0] == 1
    code, _, error = trainyard("models", "rollback", "tiny")
    assert (code, "previous" in error) == (2, True)
    code, _, error = trainyard("endpoints", "deploy", "tiny@1", "--serving", "max_replica=5")

    assert code == 2
    assert "unknown key 'serving.max_replica'; did you mean 'serving.max_replicas'" in error


def test_history_tells_which_version_was_the_default_and_why(api, version, trainyard):
    version()
    second = version()
    labels = {STATE_LABEL: CANDIDATE, RUN_LABEL: "tiny-2"}
    api.patch(f"{second.name}?updateMask=labels", {"labels": labels})
    set_default(api, second, cause=cause_of(PROMOTED, "tiny-2"), reasons="rmse 2.5 is at most 3")
    trainyard("models", "rollback", "tiny", "--reason", "Fares, too low!")
    trainyard("models", "set-default", "tiny@2")

    code, output, _ = trainyard("models", "history", "tiny", "--json")
    found = json.loads(output)
    assert code == 0
    assert [(one["version"], one["cause"], one["run"], one["reasons"]) for one in found] == [
        ("2", "set-default", "tiny-2", ""),
        ("2", "rejected", "", "Fares, too low!"),
        ("1", "rollback", "", "fares too low"),
        ("2", "promoted", "tiny-2", "rmse 2.5 is at most 3"),
        ("1", "uploaded", "", ""),
    ]
    assert found[1]["by"] == this_person()
    assert found[1]["since"] == found[1]["until"]
    defaults = [found[0], *found[2:]]
    assert [one["since"] for one in defaults[:-1]] == [one["until"] for one in defaults[1:]]
    _, output, _ = trainyard("models", "history", "tiny")
    lines = output.splitlines()
    assert lines[0].split() == ["VERSION", "SINCE", "DEFAULT", "UNTIL", "BY", "WHY"]
    assert "now" in lines[1]
    assert lines[2].split()[-6:] == ["-", this_person(), "rejected:", "Fares,", "too", "low!"]
    assert lines[4].endswith("promoted: rmse 2.5 is at most 3")


def test_rollback_transfers_the_defaults_share(api, version, trainyard):
    for _ in range(2):
        set_default(api, version())
    version()
    trainyard("endpoints", "deploy", "tiny@3")
    trainyard("endpoints", "deploy", "tiny@2", "--traffic", "30")

    assert trainyard("models", "rollback", "tiny")[0] == 0

    assert shares(api) == {"3": 70, "1": 30}


@pytest.mark.parametrize("fault", ["wrong predictions", "does not start"])
def test_failed_rollback_changes_nothing(api, version, trainyard, fault):
    words = ("crash",) if fault == "does not start" else ("classes",)
    first = version(is_right=fault != "wrong predictions", words=words)
    second = version()
    set_default(api, first)
    set_default(api, second)
    trainyard("endpoints", "deploy", "tiny@2")

    code, _, error = trainyard("models", "rollback", "tiny")

    assert code == 1
    assert error
    assert aliases(api) == {"1": ["previous"], "2": ["default"]}
    assert shares(api) == {"2": 100}


def test_deleting_the_default_or_all_versions_needs_confirmation(api, version, trainyard):
    version()
    version()

    code, _, error = trainyard("models", "delete", "tiny@1")
    assert code == 2
    assert "default" in error
    code, _, error = trainyard("models", "delete", "tiny")
    assert code == 2
    assert "--all" in error
    assert sorted(aliases(api)) == ["1", "2"]

    assert trainyard("models", "delete", "tiny@2")[0] == 0
    assert sorted(aliases(api)) == ["1"]
    code, _, error = trainyard("models", "delete", "tiny@1")
    assert code == 2
    assert "models delete tiny" in error
    version()
    assert trainyard("models", "delete", "tiny", "--all")[0] == 0
    assert list(api.list_resources("models")) == []


def test_a_split_is_restored_unless_others_changed_or_deleted_it(api, version, trainyard, caplog):
    names = [version() for _ in range(3)]
    trainyard("endpoints", "deploy", "tiny@1")
    [endpoint] = api.list_resources("endpoints")

    def fail(*words: str, percentage: int = 10) -> None:
        move = partial(with_share, percentage=percentage)
        with moved_traffic(api, endpoint["name"], names[1], move=move) as share:
            assert share == percentage
            assert words or shares(api)["2"] == percentage
            assert not words or trainyard(*words)[0] == 0
            raise RuntimeError

    with pytest.raises(VertexError, match="NOT_FOUND"):
        fail()
    for number in (2, 3):
        trainyard("endpoints", "deploy", f"tiny@{number}", "--traffic", "0")
    with pytest.raises(RuntimeError):
        fail(percentage=100)
    assert shares(api) == {"1": 100, "2": 0, "3": 0}

    with pytest.raises(RuntimeError):
        fail("endpoints", "deploy", "tiny@3", "--traffic", "80")
    assert shares(api) == {"1": 18, "2": 0, "3": 82}

    with pytest.raises(RuntimeError):
        fail("endpoints", "undeploy", "tiny@1")
    assert shares(api) == {"2": 0, "3": 100}

    with pytest.raises(RuntimeError):
        fail("endpoints", "delete", "tiny")
    assert "could not restore the traffic split" in caplog.text


def test_the_same_model_is_known_by_its_digest_but_not_while_it_is_a_candidate(api, version):
    first = version(state=CANDIDATE, digest="1")

    def known(digest: str) -> str:
        return find_known(list_versions(api, first.unversioned), digest)

    assert known("1") == ""
    set_default(api, first)
    assert (known("1"), known("2")) == (first.name, "")
    second, third = (version(state=PROMOTED, digest="2") for _ in range(2))
    assert (known("1"), known("2")) == (first.name, third.name), "the newest of several"
    set_default(api, second)
    assert known("2") == second.name, "the default of several"


@pytest.mark.parametrize(
    ("parameters", "machine", "most"),
    [
        pytest.param(
            {"serving": '{"machine": "n1-standard-8", "max_replicas": 5}'}, 8, 5, id="new"
        ),
        pytest.param({}, 4, 1, id="unknown"),
    ],
)
def test_a_version_of_a_run_gets_the_machines_of_its_run(parameters, machine, most):
    found = resources_of_run(parameters, {"min_replicas": 1})

    assert found["machineSpec"] == {"machineType": f"n1-standard-{machine}"}
    assert (found["minReplicaCount"], found["maxReplicaCount"]) == (1, most)
