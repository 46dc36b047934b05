"""One task of an earlier run: its inputs, the pipeline that executes it, links to its model."""

import datetime
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from components.model_version.companions import EVALUATED_FILE, write_companion
from components.shared.vertex.labels import STEP_LABEL
from components.shared.vertex.task_details import outputs_of
from pipelines.command.running.step import compare_outputs, delete_lost
from pipelines.config.built_in import mnist
from pipelines.errors import ResourceError
from pipelines.package.compile import compile_pipeline
from pipelines.package.spec import read_package
from pipelines.places.target import local_target
from pipelines.plan.one_task import details_of, link_model, one_task_spec, plan_task
from pipelines.resources.kinds import RUN
from tests.support.data.run_records import PASSED, job, task
from trainer.errors import ConfigError

ARTIFACTS = {
    "examples": {"uri": "/runs/r/examples", "metadata": {"workload": "mnist"}},
    "model": {"uri": "/runs/r/model"},
}


def test_the_pipeline_has_the_task_and_importers_of_its_artifacts():
    spec = read_package(compile_pipeline("i:1", config=mnist()), source="test").spec
    alone = one_task_spec(
        spec, "evaluate", image="i:2", parameters={"gate": "{}"}, artifacts=ARTIFACTS
    )

    json_format.ParseDict(alone, pipeline_spec_pb2.PipelineSpec())
    tasks = alone["root"]["dag"]["tasks"]
    assert sorted(tasks) == ["evaluate", "import-examples", "import-model"]
    assert tasks["evaluate"]["inputs"]["parameters"] == {
        "gate": {"runtimeValue": {"constant": "{}"}}
    }
    assert sorted(tasks["evaluate"]["dependentTasks"]) == ["import-examples", "import-model"]
    executors = alone["deploymentSpec"]["executors"]
    assert executors["exec-evaluate"]["container"]["image"] == "i:2"
    importer = executors["import-examples"]["importer"]
    assert importer["artifactUri"] == {"constant": "/runs/r/examples"}
    assert importer["metadata"] == {"workload": "mnist"}


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "variables/variables.index").write_bytes(b"weights")
    (folder / "workload.json").write_text('{"workload": "mnist"}')
    (folder / EVALUATED_FILE).write_text('{"inputs": "of the run"}')
    return folder


def test_results_beside_a_linked_model_are_not_those_of_the_run(tmp_path, model):
    linked = tmp_path / "linked"
    link_model(model, linked, reference="mnist")

    assert (linked / "variables/variables.index").read_bytes() == b"weights"
    assert not (linked / EVALUATED_FILE).exists()
    write_companion(str(linked), EVALUATED_FILE, {"inputs": "of now"})
    assert json.loads((model / EVALUATED_FILE).read_text()) == {"inputs": "of the run"}


@pytest.mark.parametrize(
    ("description", "reference"),
    [
        ({"declaration": {}, "hooks": ["postprocess"]}, "/code/churn-2"),
        ({}, "/code/churn-2"),
        ({"declaration": {}}, "/code/churn-1"),  # which is not loaded; the digest stays
    ],
    ids=["hooks", "own class", "declared"],
)
def test_a_model_that_needs_the_users_code_gets_that_of_now(
    tmp_path, model, description, reference
):
    described = json.dumps({**description, "reference": "/code/churn-1"})
    (model / "workload.json").write_text(described)
    link_model(model, tmp_path / "linked", reference="/code/churn-2")

    written = (tmp_path / "linked/workload.json").read_text()
    assert json.loads(written)["reference"] == reference
    assert (model / "workload.json").read_text() == described


def test_a_model_that_was_removed_is_refused(tmp_path):
    with pytest.raises(ResourceError, match="model is no longer in"):
        link_model(tmp_path / "gone", tmp_path / "linked", reference="mnist")


PARAMETERS = {"cluster": "{}", "train": "{}", "thresholds": "{}", "endpoint_name": "mnist"}


def test_a_task_that_did_not_run_is_refused():
    run = {**job(PASSED), "displayName": "m-1"}
    with pytest.raises(ResourceError, match="m-1 has not executed start"):
        details_of(run, "start")


def test_what_a_killed_step_left_is_not_the_latest_run_and_is_removed_later():
    """Its record remains, and another step may be reading a record at this moment."""

    def record(name, minutes, **labels):
        ended = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes)
        times = {"createTime": ended.isoformat(), "endTime": ended.isoformat()}
        full = f"projects/p/locations/l/pipelineJobs/{name}"
        return {"name": full, "state": "PIPELINE_STATE_FAILED", "labels": labels, **times}

    steps = [record("lost", 2, **{STEP_LABEL: "evaluate"}), record("read", 0, trainyard_step="x")]
    deleted = []
    api = SimpleNamespace(
        parent="projects/p/locations/l",
        list_resources=lambda _, filter="": steps if filter else [*steps, record("mine", 9)],
        find=lambda name: {**record(name.rpartition("/")[2], 9)},
        get=lambda name: {"name": name},
        delete=deleted.append,
        wait=lambda *_, **__: {},
    )

    assert RUN.find(api, "latest")["name"].endswith("/mine")
    delete_lost(api)

    assert deleted == ["projects/p/locations/l/pipelineJobs/lost"]


def test_a_task_that_failed_can_be_executed_again():
    failed = {**task("evaluate", state="FAILED"), "inputs": {}}
    assert details_of({**job(failed, **PARAMETERS), "displayName": "m-1"}, "evaluate") == failed


def test_outputs_are_compared_without_addresses_and_objects():
    before = task("evaluate", verdict="passed", stop="", metrics={"auc": 0.5, "rows": [1]})
    now = task("evaluate", verdict="failed", plan="{}", metrics={"auc": 0.75})
    compared = compare_outputs(outputs_of(before), outputs_of(now))
    assert {row.name: (row.first, row.second) for row in compared} == {
        "verdict": ("passed", "failed"),
        "metrics.auc": (0.5, 0.75),
        "latency.auc": (0.5, 0.75),
    }


@pytest.mark.parametrize(
    ("workload", "settings", "message"),
    [
        ("mnist", ["max_examples=3"], "max_examples=3: evaluate reads only .*thresholds, train"),
        ("/code/churn-0123456789ab", [], "other is not the folder of churn; give --workload"),
    ],
)
def test_settings_and_folders_that_do_not_fit_are_refused(tmp_path, workload, settings, message):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/workload.py").write_text("")
    parameters = {**PARAMETERS, "workload": workload}
    run = {**job({**PASSED, "inputs": {}}, **parameters), "displayName": "m-1"}
    options = {"workload": str(tmp_path / "other"), "target": local_target(tmp_path / "state")}
    with pytest.raises(ConfigError, match=message):
        plan_task(run, "evaluate", settings=settings, **options)
