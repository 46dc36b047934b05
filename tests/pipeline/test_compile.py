import re
import subprocess
import sys

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from components.image import IMAGE
from pipelines.compile import compile_pipeline, default_image
from pipelines.watch import leaf_tasks

TEST_IMAGE = "trainyard-python:golden"
SIDE_EFFECTS = {"find-parent-model", "model-upload", "ensure-endpoint", "model-deploy"} | {
    "predict",
    "promote",
    "teardown",
}
UPDATE = "to accept: python tests/pipeline/test_compile.py"


@pytest.fixture(scope="module")
def pipeline() -> str:
    return compile_pipeline(TEST_IMAGE)


@pytest.fixture(scope="module")
def tasks(pipeline) -> dict:
    """Every task of the compiled pipeline, by name."""
    spec = yaml.safe_load(pipeline)
    dags = [spec["root"]["dag"], *(c["dag"] for c in spec["components"].values() if "dag" in c)]
    return {name: task for dag in dags for name, task in dag["tasks"].items()}


def golden_path(root):
    return root / "tests" / "pipeline" / "golden" / "train_and_deploy.yaml"


def without_host(pipeline: str) -> str:
    """The pipeline without the registry that GCPC's own image comes from."""
    return re.sub(r"image: [^/\s]+/ml-pipeline/", "image: ", pipeline)


def test_the_pipeline_is_the_golden_one(pipeline, pytestconfig):
    assert without_host(pipeline) == golden_path(pytestconfig.rootpath).read_text(), UPDATE


def test_the_pipeline_is_valid_by_the_pipeline_spec_proto(pipeline):
    spec = pipeline_spec_pb2.PipelineSpec()

    json_format.ParseDict(yaml.safe_load(pipeline), spec)

    assert spec.pipeline_info.name == "train-and-deploy"


def test_tasks_run_in_this_order(pipeline):
    assert list(leaf_tasks(pipeline).values()) == [
        "prepare-examples",
        "plan-training",
        "train",
        "evaluate",
        "find-parent-model",
        "upload-model",
        "ensure-endpoint",
        "deploy-model",
        "predict",
        "promote",
        "teardown",
    ]


def test_side_effects_are_never_cached_and_the_rest_is(tasks):
    cached = {n for n, t in tasks.items() if t.get("cachingOptions", {}).get("enableCache")}

    assert not cached & SIDE_EFFECTS
    assert {"prepare-examples", "plan-training", "custom-training-job", "evaluate"} <= cached


def test_only_a_passed_verdict_deploys(tasks):
    gates = [t["triggerPolicy"].get("condition") for t in tasks.values() if "triggerPolicy" in t]

    assert [gate for gate in gates if gate] == [
        "inputs.parameter_values['pipelinechannel--evaluate-verdict'] == 'passed'"
    ]


def test_nothing_cached_knows_the_run(tasks):
    for name in ("prepare-examples", "plan-training", "custom-training-job", "evaluate"):
        assert "pipeline_job_name" not in str(tasks[name]["inputs"]), name


def test_every_container_of_ours_has_the_image(pipeline):
    assert IMAGE not in pipeline
    images = set(re.findall(r"^ +image: (\S+:\S+)$", pipeline, flags=re.MULTILINE))
    others = images - {TEST_IMAGE}
    assert TEST_IMAGE in images
    assert all("/google-cloud-pipeline-components:2.22.0" in image for image in others)


def test_nothing_of_this_machine_is_compiled_in(pipeline, pytestconfig):
    for private in (str(pytestconfig.rootpath), sys.prefix, "127.0.0.1", "/tmp"):
        assert private not in pipeline.replace("$(mktemp", ""), private


def test_the_image_is_named_by_the_source():
    assert re.fullmatch(r"trainyard-python:src-[0-9a-f]{12}", default_image())
    assert default_image() == default_image()


def test_the_command_writes_the_file(tmp_path):
    output = tmp_path / "p.yaml"

    subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "compile", "--output", output, "--image", "i:1"],
        check=True,
        timeout=60,
    )

    assert "image: i:1" in output.read_text()


if __name__ == "__main__":
    from pathlib import Path

    golden_path(Path.cwd()).write_text(without_host(compile_pipeline(TEST_IMAGE)))
