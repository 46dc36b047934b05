"""Packages of the pipelines beside the one that trains."""

import json

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from components import IMAGE
from components.shared.vertex.task_details import leaf_tasks
from pipelines.cli import main
from pipelines.dags import PIPELINES
from pipelines.package.spec import read_package_file
from pipelines.places.target import local_target
from pipelines.runs.submit import config_of, plan_run
from trainer.errors import ConfigError

TASKS = {
    "batch-predict": ["find-version", "model-batch-predict", "teardown"],
    "watch-endpoint": ["watch-endpoint", "teardown"],
}
SETTINGS = {
    "batch-predict": ["model_name=taxi", 'inputs=["/data/*.jsonl"]', "output_dir=/out"],
    "watch-endpoint": ["endpoint_name=taxi", 'options={"last": 500}'],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Compile all of them."""
    found = tmp_path_factory.mktemp("dist")
    words = [word for name in PIPELINES for word in ("--pipeline", name)]
    assert main(["compile", *words, "--image", "r.example/i:1", "--output-dir", str(found)]) == 0
    assert sorted(path.stem for path in found.iterdir()) == sorted(PIPELINES)
    return found


@pytest.mark.parametrize("name", PIPELINES)
def test_the_package_is_valid_and_its_tasks_run_afresh(name, folder):
    text = (folder / f"{name}.yaml").read_text()
    content = yaml.safe_load(text)
    spec = pipeline_spec_pb2.PipelineSpec()
    json_format.ParseDict(content, spec)

    assert spec.pipeline_info.name == name
    assert list(leaf_tasks({"pipelineSpec": content}).values()) == TASKS[name]
    assert IMAGE not in text
    dags = [
        content["root"]["dag"],
        *(c["dag"] for c in content["components"].values() if "dag" in c),
    ]
    tasks = {key: task for dag in dags for key, task in dag["tasks"].items()}
    cached = [key for key in TASKS[name] if tasks[key].get("cachingOptions", {}).get("enableCache")]
    assert cached == []
    inputs = content["root"]["inputDefinitions"]["parameters"]
    assert all(one["parameterType"] and one["description"] for one in inputs.values())
    assert not {"project", "location"} & set(inputs)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_schedule_can_run_it(name, folder, tmp_path):
    package = read_package_file(folder / f"{name}.yaml")
    target = local_target(tmp_path)

    assert config_of(package, settings=[], cluster=None) is None
    planned = plan_run(package, run="r-1", target=target, config=None, settings=SETTINGS[name])

    given = dict(setting.split("=", 1) for setting in SETTINGS[name])
    if "inputs" in given:
        given["inputs"] = json.loads(given["inputs"])
    assert planned.request["runtimeConfig"]["parameterValues"] == given
    with pytest.raises(ConfigError, match="has no default"):
        plan_run(package, run="r-1", target=target, config=None, settings=[])
