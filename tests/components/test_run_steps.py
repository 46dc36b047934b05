"""Search, promotion and teardown against the real service."""

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from components.endpoint import ensure
from components.endpoint.deployments import undeploy_idle
from components.endpoint.ensure import ensure_endpoint
from components.model_version.champion import (
    Champion,
    default_champion,
    find_champion,
    find_compared,
)
from components.model_version.history import cause_of, history_of, with_event
from components.model_version.recorded import record_evaluation
from components.model_version.registry import (
    find_model,
    is_candidate,
    list_versions,
    set_default,
)
from components.shared.vertex.errors import VertexError
from components.shared.vertex.labels import (
    BILLING_LABEL,
    CANDIDATE,
    CHALLENGER,
    PROMOTED,
    RUN_LABEL,
    SCHEDULE_LABEL,
    STATE_LABEL,
)
from components.shared.vertex.resource_name import ResourceName
from components.shared.vertex.task_details import replicas_of
from components.teardown.ending import end_run
from components.teardown.run_resources import (
    DEPLOY,
    EVALUATE,
    EXIT,
    KNOWN,
    RECORD,
    TRAIN,
    UPLOAD,
    RunResources,
)
from components.teardown.teardown import tear_down
from pipelines.cli import main
from pipelines.command import target_options
from vertex_local.api.database.store import Store

LONG_JOB = {
    "displayName": "sleeper",
    "labels": {RUN_LABEL: "run-1"},
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "replicaCount": "1",
                "machineSpec": {"machineType": "n1-standard-4"},
                "containerSpec": {"imageUri": "i", "command": ["python", "-c"]},
            }
        ]
    },
}
LONG_JOB["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"] = ["import time; time.sleep(60)"]
MAX_REQUESTS = 10
NO_METRICS = {
    "label_kind": "Binary",
    "labels": [],
    "num_examples": 8,
    "metrics": {},
    "confusion": [],
    "champion": None,
    "baseline": None,
    "gain": None,
    "slices": [],
    "checks": [],
}


@pytest.fixture
def requests(api, monkeypatch):
    """The requests since this list was last cleared."""
    requests = []
    send = api.session.request

    def counted(method, url, **arguments):
        requests.append(f"{method} {url}")
        return send(method, url, **arguments)

    monkeypatch.setattr(api.session, "request", counted)
    return requests


@pytest.fixture
def version(upload):
    """Upload a candidate version of a run; return its name."""

    def do(*, run: str, parent: str = "", **labels: str) -> ResourceName:
        fields = {"parentModel": parent} if parent else {}
        labels = {RUN_LABEL: run, STATE_LABEL: CANDIDATE, **labels}
        answer = upload(labels=labels, **fields)
        return ResourceName.from_name(answer["model"]).with_version(answer["modelVersionId"])

    return do


@pytest.fixture
def deploy(api):
    """Deploy a version with all traffic, like GCPC without a name or label of the run."""

    def do(version: ResourceName, endpoint: str) -> None:
        body = {
            "deployedModel": {
                "model": version.name,
                "dedicatedResources": {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "minReplicaCount": 1,
                },
            },
            "trafficSplit": {"0": 100},
        }
        api.wait(api.post(f"{endpoint}:deployModel", body), timeout_seconds=60)

    return do


@pytest.fixture
def record_run(service, api):
    """Store a finished PipelineJob with the outputs of its tasks; return its billing id.

    A task without outputs was interrupted.
    """

    def do(
        run: str,
        tasks: dict[str, dict | None],
        *,
        has: tuple[str, ...] = (TRAIN, UPLOAD, RECORD, DEPLOY, EXIT),
        night: int = 1,
        schedule: str = "",
        **parameters,
    ) -> str:
        name = f"{api.parent}/pipelineJobs/{run}"
        billing_id = f"bill-{run}"
        job = {
            "name": name,
            "state": "PIPELINE_STATE_FAILED",
            "createTime": f"2026-01-{night:02}T00:00:00Z",
            "endTime": f"2026-01-{night:02}T01:00:00Z",
            "labels": {
                BILLING_LABEL: billing_id,
                **({SCHEDULE_LABEL: schedule} if schedule else {}),
            },
            "pipelineSpec": {
                "root": {"dag": {"tasks": {name: {"componentRef": {"name": "c"}} for name in has}}},
                "components": {"c": {}},
            },
            "runtimeConfig": {
                "parameterValues": {"model_name": "tiny", "endpoint_name": "digits", **parameters}
            },
        }
        folder = service.root / "pipelines" / run
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "events.jsonl").open("w") as file:
            for event in _events(tasks):
                file.write(json.dumps(event) + "\n")
        store = Store(service.root / "vertex.db")
        store.insert(name, job)
        store.close()
        return billing_id

    return do


def _events(tasks):
    moment = "2026-01-01T00:00:00Z"
    for number, (name, outputs) in enumerate(tasks.items(), start=1):
        task = {"id": number, "name": name, "unique_name": name, "display_name": name}
        yield {"time": moment, "event": "task_started", **task}
        if outputs is not None:
            parameters = {key: value for key, value in outputs.items() if isinstance(value, str)}
            artifacts = {
                key: [{"name": key, "uri": "", "type": {}, "metadata": metadata}]
                for key, metadata in outputs.items()
                if key not in parameters
            }
            ended = {"id": number, "state": "SUCCEEDED", "inputs": {}, "error": ""}
            ended["outputs"] = parameters
            yield {
                "time": moment,
                "event": "task_ended",
                **ended,
                "input_artifacts": {},
                "output_artifacts": artifacts,
            }


def endpoint_name(api, *, run: str = "run-1") -> str:
    return ensure_endpoint(api, "digits", run=run)["name"]


def promote(api, version: ResourceName, endpoint: str) -> None:
    set_default(api, version, reasons="rmse 2.5 is at most 3\nr2 0.7 is at least 0.5")
    undeploy_idle(api, endpoint, keep=version)


def aliases(api, model: str) -> dict[str, list[str]]:
    return {v["versionId"]: v.get("versionAliases", []) for v in list_versions(api, model)}


def deployed_versions(api, endpoint: str) -> list[str]:
    return [model["modelVersionId"] for model in api.get(endpoint).get("deployedModels", [])]


def test_a_deployed_model_of_another_name_is_said(caplog):
    parent = "projects/p/locations/l/models"
    deployed = [
        {"id": str(number), "model": f"{parent}/{name}", "modelVersionId": "1"}
        for number, name in enumerate(["old", "new"])
    ]
    body = {"deployedModels": deployed, "trafficSplit": {"1": 100}}
    idle_api = SimpleNamespace(get=lambda _: body)
    undeploy_idle(idle_api, "e", keep=ResourceName.from_name(f"{parent}/new@1"))
    assert "the model projects/p/locations/l/models/old stays deployed" in caplog.text


@pytest.fixture
def served(api, version, deploy):
    """Promote version 1 of the run `run-1` on an endpoint of a run; return both."""

    def do(run: str = "run-0") -> tuple[ResourceName, str]:
        endpoint = endpoint_name(api, run=run)
        first = version(run="run-1")
        deploy(first, endpoint)
        set_default(api, first)
        return first, endpoint

    return do


def released(version: ResourceName, endpoint: str = "", served: str = "yes") -> dict:
    """Return the outputs of a run that has recorded a version, maybe on an endpoint."""
    on = {"endpoint": {"resourceName": endpoint, "servedBefore": served}} if endpoint else {}
    return {RECORD: {"version": {"resourceName": version.name}, **on}}


def record(api, version: ResourceName, *, content: dict, state: str = CANDIDATE) -> ResourceName:
    """Record an evaluation; return the version, which may be moved."""
    reasons = "auc 0.75 is at least 0.7\nauc is better"
    return record_evaluation(api, version, content, verdict="passed", reasons=reasons, state=state)


def test_two_first_runs_at_once_make_one_model_with_two_versions(api, version, record_run):
    first = version(run="run-1")
    twin = version(run="run-2", **{BILLING_LABEL: record_run("run-2", {})})

    kept = record(api, first, content=NO_METRICS)
    moved = record(api, twin, content=NO_METRICS)

    assert kept == first
    assert moved == first.with_version(2)
    assert list(api.list_resources(f"{moved.name}/evaluations"))
    [model] = api.list_resources("models")
    assert model["name"].startswith(first.unversioned)
    assert aliases(api, first.unversioned) == {"1": ["default"], "2": []}
    set_default(api, kept)
    assert default_champion(api, moved.unversioned).version == first.name
    tear_down(RunResources.of_run(api, "run-2"))
    assert list(aliases(api, first.unversioned)) == ["1"]


def test_an_endpoint_is_created_once_also_by_two_runs_at_once(api, monkeypatch):
    older = ensure_endpoint(api, "digits", run="run-1")
    assert older["labels"] == {RUN_LABEL: "run-1"}
    assert ensure_endpoint(api, "digits", run="run-2")["name"] == older["name"]
    answers = iter([None])
    find = ensure.find_endpoint
    monkeypatch.setattr(ensure, "find_endpoint", lambda *found: next(answers, find(*found)))

    assert ensure_endpoint(api, "digits", run="run-3")["name"] == older["name"]
    assert len(list(api.list_resources("endpoints"))) == 1


def test_promotion_moves_the_aliases_and_undeploys_the_replaced_version(api, version, deploy):
    endpoint = endpoint_name(api)
    first = version(run="run-1")
    deploy(first, endpoint)
    promote(api, first, endpoint)
    second = version(run="run-2", parent=first.unversioned)
    deploy(second, endpoint)

    promote(api, second, endpoint)

    assert aliases(api, first.unversioned) == {"1": ["previous"], "2": ["default"]}
    assert deployed_versions(api, endpoint) == ["2"]
    versions = list_versions(api, first.unversioned)
    assert not any(is_candidate(one) for one in versions)
    described = {one["versionDescription"] for one in versions}
    assert described == {"rmse 2.5 is at most 3; r2 0.7 is at least 0.5"}


def test_the_champion_is_the_default_version_that_was_promoted(api, version):
    assert find_model(api, "tiny") == ""
    assert find_champion(api, "tiny") == Champion()
    first = version(run="run-1")
    assert find_model(api, "tiny") == first.unversioned
    assert find_champion(api, "tiny") == Champion()

    set_default(api, first)
    version(run="run-2", parent=first.unversioned)

    folder = api.get(first.name)["artifactUri"]
    assert find_champion(api, "tiny") == Champion(version=first.name, model_uri=folder)


def test_a_challenger_stays_beside_the_default_version_until_it_is_promoted(
    api, version, record_run, tmp_path
):
    first = version(run="run-1")
    set_default(api, first)
    labels = {STATE_LABEL: CHALLENGER, BILLING_LABEL: record_run("run-2", {})}
    second = version(run="run-2", parent=first.unversioned, **labels)
    record(api, second, content=NO_METRICS, state=CHALLENGER)

    path = tmp_path / "summary.json"
    where = {"run": "run-2", "keep_endpoint": False, "summary_path": str(path)}
    end_run(api, **where, state="SUCCEEDED", error="")

    assert json.loads(path.read_text())["model_version"] == ""
    assert aliases(api, first.unversioned) == {"1": ["default"], "2": ["challenger"]}
    assert find_champion(api, "tiny").version == first.name
    set_default(api, second)
    assert aliases(api, first.unversioned) == {"1": ["previous"], "2": ["challenger", "default"]}
    assert find_champion(api, "tiny").version == second.name


def test_an_evaluation_is_attached_to_its_version_with_the_reasons(api, version):
    first = version(run="run-1")
    champion = {"version": "projects/p/locations/l/models/5@2", "metrics": {"auc": 0.7}}
    content = {
        "label_kind": "Binary",
        "labels": ["no", "yes"],
        "num_examples": 8,
        "metrics": {"auc": 0.75, "loss": 0.5, "pr_auc": None, "accuracy": 0.8},
        "confusion": [[3, 1], [0, 4]],
        "champion": champion,
        "baseline": None,
        "gain": None,
        "slices": [],
        "checks": [],
    }
    record(api, first, content=content)

    [found] = api.list_resources(f"{first.name}/evaluations")
    assert found["metricsSchemaUri"].endswith("/classification_metrics_1.0.0.yaml")
    assert found["metrics"] == {
        "auRoc": 0.75,
        "logLoss": 0.5,
        "confusionMatrix": {
            "annotationSpecs": [{"displayName": "no"}, {"displayName": "yes"}],
            "rows": [[3, 1], [0, 4]],
        },
    }
    assert found["metadata"]["champion"] == champion
    assert found["metadata"]["verdict"] == "passed"
    described = api.get(first.name)["versionDescription"]
    assert described == "auc 0.75 is at least 0.7; auc is better"


def test_a_version_that_is_trained_again_is_compared_with_the_same_one_as_before(api, version):
    first = version(run="run-1")
    second = version(run="run-2", parent=first.unversioned)
    third = version(run="run-3", parent=first.unversioned)

    def evaluate(of, metadata):
        body = {"modelEvaluation": {"displayName": "test split", "metadata": metadata}}
        api.post(f"{of.name}/evaluations:import", body)

    assert find_compared(api, third.name) == Champion()
    evaluate(third, {"champion": None, "verdict": "passed"})
    assert find_compared(api, third.name) == Champion()
    evaluate(third, {"champion": {"version": second.name, "metrics": {}}})
    evaluate(third, {"champion": {"version": first.name, "metrics": {}}})
    evaluate(third, {"of another program": 1})

    folder = api.get(first.name)["artifactUri"]
    assert find_compared(api, third.name) == Champion(version=first.name, model_uri=folder)
    set_default(api, third)
    api.wait(api.delete(f"{first.name}:deleteVersion"), timeout_seconds=30)
    assert find_compared(api, third.name) == Champion()


def test_a_version_that_was_not_promoted_never_becomes_previous(api, version):
    first = version(run="run-1")  # its model's default, as the first one
    second = version(run="run-2", parent=first.unversioned)

    set_default(api, second)

    assert aliases(api, first.unversioned) == {"1": [], "2": ["default"]}


def test_teardown_after_a_failure_leaves_nothing_of_the_run_and_may_be_repeated(
    api, version, deploy
):
    job = api.post(f"{api.parent}/customJobs", LONG_JOB)
    endpoint = endpoint_name(api)
    first = version(run="run-1")
    deploy(first, endpoint)

    tear_down(RunResources.of_run(api, "run-1"))
    tear_down(RunResources.of_run(api, "run-1"))

    assert api.get(job["name"])["state"] == "JOB_STATE_CANCELLED"
    assert list(api.list_resources("models")) == []
    assert list(api.list_resources("endpoints")) == []


def test_teardown_after_a_failure_restores_traffic_and_default(api, served, version, deploy):
    first, endpoint = served()
    second = version(run="run-2", parent=first.unversioned)
    deploy(second, endpoint)
    api.post(f"{second.name}:mergeVersionAliases", {"versionAliases": ["default"]})

    tear_down(RunResources.of_run(api, "run-2"))

    assert aliases(api, first.unversioned) == {"1": ["default"]}
    assert deployed_versions(api, endpoint) == ["1"]
    assert set(api.get(endpoint)["trafficSplit"].values()) == {100}


def test_teardown_after_success_keeps_the_version_and_the_endpoint_only_if_asked(api, served):
    first, endpoint = served("run-1")

    tear_down(RunResources.of_run(api, "run-1"), keep_endpoint=True)
    assert deployed_versions(api, endpoint) == ["1"]
    tear_down(RunResources.of_run(api, "run-1"))

    assert aliases(api, first.unversioned) == {"1": ["default"]}
    with pytest.raises(VertexError, match="NOT_FOUND"):
        api.get(endpoint)


@pytest.mark.parametrize("before", ["yes", "no"])
def test_an_endpoint_that_served_before_serves_the_promoted_version_after(
    api, served, record_run, before
):
    first, endpoint = served()
    record_run("run-1", released(first, endpoint, before))

    tear_down(RunResources.of_run(api, "run-1"))

    assert deployed_versions(api, endpoint) == (["1"] if before == "yes" else [])


def test_teardown_after_a_failure_keeps_the_other_runs_of_the_schedule(api, version, record_run):
    """Runs of a schedule share the label `trainyard_run`; only their billing ids differ."""
    first, second = (
        {BILLING_LABEL: record_run(run, {TRAIN: {}, UPLOAD: None}, schedule="nightly")}
        for run in ("night-1", "night-2")
    )
    kept = version(run="nightly", **first)
    version(run="nightly", parent=kept.unversioned, **second)

    tear_down(RunResources.of_run(api, "night-2"))

    [left] = list_versions(api, kept.unversioned)
    assert left["labels"][BILLING_LABEL] == first[BILLING_LABEL]


@pytest.mark.parametrize(
    ("release", "deployed"),
    [("{}", ["2"]), ('{"keep_previous": true}', ["1", "2"])],
    ids=["default", "keep previous"],
)
def test_a_promotion_that_was_interrupted_is_completed(
    api, served, version, deploy, record_run, *, release, deployed
):
    first, endpoint = served()
    second = version(run="run-2", parent=first.unversioned)
    deploy(second, endpoint)
    labels = with_event(api.get(second.name)["labels"], cause_of(PROMOTED, "run-2"))
    labels[STATE_LABEL] = "promoted"
    api.patch(f"{second.name}?updateMask=labels", {"labels": labels})
    record_run("run-2", released(second, endpoint), release=release)

    tear_down(RunResources.of_run(api, "run-2"))
    tear_down(RunResources.of_run(api, "run-2"))

    assert aliases(api, first.unversioned) == {"1": ["previous"], "2": ["default"]}
    assert deployed_versions(api, endpoint) == deployed
    last = history_of(list_versions(api, first.unversioned))[-1]
    assert (last.version, last.cause, last.run) == ("2", "promoted", "run-2")


@pytest.mark.parametrize("is_rollback", [False, True])
def test_teardown_does_not_complete_a_promotion_that_another_one_followed(
    api, version, record_run, is_rollback
):
    first = version(run="run-1")
    set_default(api, first)
    third = version(run="run-3", parent=first.unversioned)
    second = version(run="run-2", parent=first.unversioned)
    labels = with_event(api.get(second.name)["labels"], cause_of(PROMOTED, "run-2"))
    api.patch(f"{second.name}?updateMask=labels", {"labels": {**labels, STATE_LABEL: "promoted"}})
    if is_rollback:
        set_default(api, second)
    set_default(api, first if is_rollback else third)
    before = aliases(api, first.unversioned)
    record_run("run-2", released(second))

    tear_down(RunResources.of_run(api, "run-2"))

    assert aliases(api, first.unversioned) == before
    if not is_rollback:
        assert before == {"1": ["previous"], "2": ["default"], "3": []}


@pytest.mark.parametrize("has_moved", [False, True], ids=["before the alias", "after it"])
def test_an_interrupted_return_to_an_older_version_is_undone_or_completed(
    api, version, deploy, record_run, has_moved
):
    endpoint = endpoint_name(api, run="run-0")
    first = version(run="run-1")
    set_default(api, first)
    second = version(run="run-2", parent=first.unversioned)
    deploy(second, endpoint)
    set_default(api, second)
    deploy(first, endpoint)  # by the lost task, which has moved the traffic, too
    if has_moved:
        set_default(api, first, cause=cause_of(PROMOTED, "run-3"))
    else:
        labels = with_event(api.get(first.name)["labels"], cause_of(PROMOTED, "run-3"))
        api.patch(f"{first.name}?updateMask=labels", {"labels": labels})
    has = (TRAIN, EVALUATE, UPLOAD, RECORD, DEPLOY, KNOWN, EXIT)
    record_run("run-3", {EVALUATE: {"known_version": first.name}, KNOWN: None}, has=has)

    tear_down(RunResources.of_run(api, "run-3"))
    tear_down(RunResources.of_run(api, "run-3"))

    served = first if has_moved else second
    assert deployed_versions(api, endpoint) == [served.version]
    assert [*api.get(endpoint)["trafficSplit"].values()] == [100]
    assert history_of(list_versions(api, first.unversioned))[-1].version == served.version
    assert "default" in aliases(api, first.unversioned)[served.version]


@pytest.fixture
def lost_run(api, version, deploy, record_run):
    """Store a run whose exit task was lost after its deployment; return its version."""

    def do(run: str, **recorded) -> ResourceName:
        endpoint = endpoint_name(api, run="run-0")
        made = version(run=run, parent=find_model(api, "tiny"), **{BILLING_LABEL: f"bill-{run}"})
        deploy(made, endpoint)
        upload = {UPLOAD: {"model": {"resourceName": made.name}}}
        tasks = {TRAIN: {}, **upload, **released(made, endpoint, "no"), DEPLOY: {}}
        record_run(run, tasks, **recorded)
        return made

    return do


def test_what_lost_runs_left_is_listed_and_removed_by_command(
    api, lost_run, record_run, monkeypatch, capsys
):
    monkeypatch.setattr(target_options, "api_of", lambda *_, **__: nullcontext(api))
    record_run("run-2", {TRAIN: {}, EXIT: {}}, night=2)
    version = lost_run("run-1")

    assert main(["teardown"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    shown = f"tiny@{version.version}"
    left = f"version {shown}, {shown} on digits"
    assert rows == [["run-1", "01-01", "01:00", *left.split()]]

    assert main(["teardown", "run-1"]) == 0
    assert capsys.readouterr().out == f"run run-1: removed {left}\n"
    assert list(api.list_resources("models")) == []
    assert deployed_versions(api, endpoint_name(api)) == []
    assert main(["teardown"]) == 0
    assert "no run has ended without its teardown" in capsys.readouterr().out
    assert main(["teardown", "run-9"]) == 2


def test_a_teardown_follows_for_the_lost_runs_of_its_schedule(api, lost_run, record_run, tmp_path):
    far, lost = (
        lost_run("night-1", schedule="nightly"),
        lost_run("night-3", schedule="nightly", night=3),
    )
    record_run("night-2", {TRAIN: {}, EXIT: {}}, schedule="nightly", night=2)
    record_run("night-4", {TRAIN: {}}, schedule="nightly", night=4)
    record_run("day", {TRAIN: {}}, night=5)

    summary_path = str(tmp_path / "summary.json")
    where = {"keep_endpoint": False, "summary_path": summary_path}
    end_run(api, run="day", **where, state="FAILED", error="")
    assert set(deployed_versions(api, endpoint_name(api))) == {far.version, lost.version}
    end_run(api, run="night-4", **where, state="FAILED", error="")

    assert deployed_versions(api, endpoint_name(api)) == [far.version]  # before a teardown
    assert [one["versionId"] for one in list_versions(api, far.unversioned)] == [far.version]


def test_the_teardown_of_a_pipeline_that_makes_nothing_looks_for_nothing(api, requests, record_run):
    record_run("predict-1", {"find-version": {}}, has=("find-version", EXIT))
    requests.clear()

    tear_down(RunResources.of_run(api, "predict-1"))

    assert len(requests) == 1, requests


@pytest.fixture
def crowd(service, api):
    """Store 500 models and 200 endpoints of other users."""
    store = Store(service.root / "vertex.db")
    moment = "2026-01-01T00:00:00Z"
    times = {"createTime": moment, "updateTime": moment}
    with store.atomic():
        for number in range(500):
            name = f"{api.parent}/models/m{number}"
            record = {"name": name, "folder": f"m{number}", "displayName": f"other {number}"}
            more = {"labels": {}, "lastVersion": 1, "aliases": {"default": "1"}}
            store.insert(name, {**record, **times, **more})
            version = {"name": f"{name}/versions/1", "versionId": "1", "versionCreateTime": moment}
            store.insert(version["name"], version)
        for number in range(200):
            name = f"{api.parent}/endpoints/e{number}"
            store.insert(name, {"name": name, "displayName": f"other {number}", **times})
    store.close()


@pytest.mark.parametrize("ends", ["promoted", "failed", "interrupted while uploading"])
@pytest.mark.usefixtures("crowd")
def test_teardown_takes_ten_requests_with_any_number_of_other_resources(  # noqa: PLR0917
    api, requests, version, deploy, record_run, ends
):
    endpoint = endpoint_name(api)
    first = version(run="run-1", **{BILLING_LABEL: "bill-run-1"})
    if ends == "promoted":
        set_default(api, first)
    if ends != "interrupted while uploading":
        deploy(first, endpoint)
        record_run("run-1", {TRAIN: {}, UPLOAD: {}, **released(first, endpoint, "no")})
    else:
        api.delete(endpoint)
        record_run("run-1", {TRAIN: {}, UPLOAD: None})
    requests.clear()

    tear_down(RunResources.of_run(api, "run-1"))

    assert len(requests) <= MAX_REQUESTS, requests
    assert len(list(api.list_resources("models"))) == (501 if ends == "promoted" else 500)
    assert len(list(api.list_resources("endpoints"))) == 200


@pytest.mark.usefixtures("crowd")
def test_an_interrupted_training_is_found_by_its_label(api, requests, record_run):
    billing_id = record_run("run-1", {TRAIN: None})
    job = api.post(f"{api.parent}/customJobs", {**LONG_JOB, "labels": {BILLING_LABEL: billing_id}})
    requests.clear()

    tear_down(RunResources.of_run(api, "run-1"))

    assert api.get(job["name"])["state"] == "JOB_STATE_CANCELLED"
    waiting = [request for request in requests if request == f"GET {api.base_url}/v1/{job['name']}"]
    assert len(requests) - len(waiting) < MAX_REQUESTS


def test_the_report_of_a_scheduled_run_has_its_own_training(api, record_run, tmp_path):
    """Runs of a schedule share the label `trainyard_run`; only their billing ids differ."""
    billing_id = record_run("night-2", {TRAIN: None})
    labels = {RUN_LABEL: "nightly", BILLING_LABEL: billing_id}
    job = api.post(f"{api.parent}/customJobs", {**LONG_JOB, "labels": labels})
    deadline = time.monotonic() + 20
    job_id = ResourceName.from_name(job["name"]).id
    while '"RUNNING"' not in json.dumps(replicas_of(api, job_id)):
        assert time.monotonic() < deadline, "no replica of the job runs in time"
        time.sleep(0.2)

    end_run(
        api,
        run="night-2",
        keep_endpoint=False,
        state="FAILED",
        error="it was too slow",
        summary_path=str(tmp_path / "summary.json"),
    )

    page = (tmp_path / "report.html").read_text()
    assert "chief/0" in page
