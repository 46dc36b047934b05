import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from components.teardown import run_resources
from pipelines.cli import main
from pipelines.config.built_in import RUNS, mnist
from pipelines.config.run_config import RunConfig
from pipelines.package import compile as compiling
from pipelines.package.compile import NUM_KEPT, compile_once, compile_pipeline
from pipelines.package.image import SOURCES, default_image

TEST_IMAGE = "trainyard:golden"
NEVER_CACHED = {
    "start",
    "evaluate",
    "upload-model",
    "record-version",
    "deploy-model",
    "release-model",
    "serve-known",
    "teardown",
}
UPDATE = "to accept: python tests/pipelines/package/test_compile.py"


@pytest.fixture(scope="module")
def pipeline():
    return compile_pipeline(TEST_IMAGE, config=mnist())


@pytest.fixture(scope="module")
def spec(pipeline):
    return yaml.safe_load(pipeline)


@pytest.fixture(scope="module")
def tasks(spec):
    """Return the tasks of the compiled pipeline by name."""
    dags = [spec["root"]["dag"], *(c["dag"] for c in spec["components"].values() if "dag" in c)]
    return {name: task for dag in dags for name, task in dag["tasks"].items()}


def golden_path(root):
    return root / "tests" / "pipelines" / "package" / "golden" / "mnist.yaml"


def without_host(pipeline):
    """Return the pipeline without the registry of GCPC's image."""
    return re.sub(r"image: [^/\s]+/ml-pipeline/", "image: ", pipeline)


def test_the_pipeline_is_the_golden_one(pipeline, pytestconfig):
    assert without_host(pipeline) == golden_path(pytestconfig.rootpath).read_text(), UPDATE


@pytest.fixture
def compiled(monkeypatch, pipeline):
    """Return the images of the pipelines that are compiled from now on."""
    found = []

    def compile_(image, *, config):
        found.append(image)
        return pipeline.replace(TEST_IMAGE, image)

    monkeypatch.setattr(compiling, "compile_pipeline", compile_)
    return found


def test_a_pipeline_is_compiled_once(compiled, pipeline, tmp_path):
    texts = [compile_once(TEST_IMAGE, config=mnist(), folder=tmp_path / "kept") for _ in range(2)]
    assert texts == [pipeline, pipeline]
    assert compiled == [TEST_IMAGE]
    [path] = (tmp_path / "kept").iterdir()
    damaged = path.read_bytes().replace(b"mnist", b"m\xffist", 1)
    for content in (damaged, damaged.replace(b"\xff", b"o"), b""):
        path.write_bytes(content)
        assert compile_once(TEST_IMAGE, config=mnist(), folder=tmp_path / "kept") == pipeline
    assert len(compiled) == 4


@pytest.mark.parametrize("change", ["image", "settings", "source", "kfp"])
def test_a_pipeline_is_compiled_again_when_something_changes(
    compiled, tmp_path, monkeypatch, change
):
    image, config = TEST_IMAGE, mnist()
    compile_once(image, config=config, folder=tmp_path)
    if change == "image":
        image = "trainyard:other"
    if change == "settings":
        config = config.replace(train={"epochs": 7})
    if change == "source":
        (tmp_path / "source" / "pipelines").mkdir(parents=True)
        (tmp_path / "source" / "pipelines" / "changed.py").touch()
        monkeypatch.setattr(compiling, "SOURCE_ROOT", tmp_path / "source")
    if change == "kfp":
        monkeypatch.setattr(compiling, "version", lambda name: "99.0")
    compile_once(image, config=config, folder=tmp_path)
    assert compiled == [TEST_IMAGE, image]


def test_no_pipeline_is_kept_where_there_is_no_state(compiled, pipeline, tmp_path):
    folder = tmp_path / "state" / "packages"
    assert compile_once(TEST_IMAGE, config=mnist(), folder=folder) == pipeline
    assert not folder.parent.exists()


def test_the_last_pipelines_are_kept(compiled, tmp_path):
    for number in range(NUM_KEPT + 3):
        compile_once(f"trainyard:{number}", config=mnist(), folder=tmp_path)
    texts = [path.read_text() for path in tmp_path.iterdir()]
    assert len(texts) <= NUM_KEPT + 1
    assert any(f"trainyard:{NUM_KEPT + 2}" in text for text in texts)


def test_the_pipeline_is_valid_by_the_pipeline_spec_proto(spec):
    parsed = json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    assert parsed.pipeline_info.name == "train-and-deploy-mnist"


def test_cached_steps_have_the_runs_own_examples_in_their_key(tasks):
    """Outputs of a run have its folder in their addresses, so other data is another key."""
    source = {"workload", "data_dir", "trust_files", "prepare", "max_examples"}
    assert set(tasks["prepare-examples"]["inputs"]["parameters"]) == source | {"input_fingerprint"}
    assert "pipelinechannel--start-fingerprint" in inputs_of(tasks["prepare-examples"])
    made_of_examples = {"plan-training": "prepare-examples", "train": "plan-training"}
    executed = {name for name, task in tasks.items() if "cachingOptions" in task}
    cached = {n for n in executed if tasks[n]["cachingOptions"].get("enableCache")}
    assert cached == {"prepare-examples", *made_of_examples}
    assert executed - cached == NEVER_CACHED
    for name, source in made_of_examples.items():
        assert source in inputs_of(tasks[name]), name
    assert "workload" in tasks["plan-training"]["inputs"]["parameters"]


def inputs_of(task):
    return json.dumps(task["inputs"])


def test_teardown_uses_the_pipelines_task_names(tasks):
    used = ("TRAIN", "UPLOAD", "RECORD", "DEPLOY", "EXIT")
    assert {getattr(run_resources, name) for name in used} <= set(tasks)


def test_steps_that_are_safe_to_repeat_are_repeated(tasks):
    """A lost launcher's upload or deployment goes on: another attempt would make a second one."""
    once = {"train", "upload-model", "deploy-model", "release-model", "serve-known"}
    executed = {name for name, task in tasks.items() if "cachingOptions" in task}

    repeated = {name for name in executed if tasks[name].get("retryPolicy")}

    assert repeated == executed - once
    assert once <= executed


def test_cached_tasks_do_not_depend_on_the_run(tasks):
    for name in ("prepare-examples", "plan-training", "train"):
        assert "pipeline_job_name" not in str(tasks[name]["inputs"]), name


def test_every_parameter_is_typed_described_and_defaulted(spec):
    inputs = spec["root"]["inputDefinitions"]["parameters"]

    assert not {"project", "location"} & set(inputs), "they are the run's own"
    assert all(one["parameterType"] and one["description"] for one in inputs.values())
    assert all("defaultValue" in one for one in inputs.values())


@pytest.mark.parametrize("workload", [name for name in RUNS if name != "mnist"])
def test_packages_differ_only_in_their_workloads_defaults(spec, workload):
    other = yaml.safe_load(compile_pipeline(TEST_IMAGE, config=RUNS[workload]()))
    inputs = other["root"]["inputDefinitions"]["parameters"]
    defaults = {name: one["defaultValue"] for name, one in inputs.items() if "defaultValue" in one}

    assert RunConfig.from_parameters(defaults) == RUNS[workload]()
    assert other["pipelineInfo"]["name"] == f"train-and-deploy-{workload}"
    root = {**other["root"], "inputDefinitions": spec["root"]["inputDefinitions"]}
    assert {**other, "root": root, "pipelineInfo": spec["pipelineInfo"]} == spec


@pytest.mark.timeout(120)
def test_package_does_not_depend_on_this_machine(tmp_path, pytestconfig):
    """Compile in another folder, home, time zone and environment, and at another time."""
    copy = tmp_path / "elsewhere" / "copy"
    for package in ("components", "pipelines", "trainer", "trainyard"):
        shutil.copytree(
            pytestconfig.rootpath / package, copy / package, ignore=shutil.ignore_patterns("*.pyc")
        )
    for file in set(SOURCES) - {"components", "trainer", "trainyard"}:
        shutil.copy(pytestconfig.rootpath / file, copy / file)
    strange = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "USER": "somebody",
        "LOGNAME": "somebody",
        "TZ": "Pacific/Chatham",
        "LANG": "C",
        "PYTHONHASHSEED": "7",
        "PYTHONPATH": str(copy),
        "TMPDIR": str(tmp_path),
        "GOOGLE_CLOUD_PROJECT": "private-project",
        "TRAINYARD_DIR": str(tmp_path / "state"),
    }
    here, there = tmp_path / "here", tmp_path / "there"
    words = ["compile", "taxi", "--output-dir"]
    assert main([*words, str(here)]) == 0
    command = [sys.executable, "-m", "pipelines.cli", *words, there]
    subprocess.run(command, check=True, timeout=100, cwd=copy, env=strange)
    assert (here / "taxi.yaml").read_bytes() == (there / "taxi.yaml").read_bytes()
    assert "private-project" not in (there / "taxi.yaml").read_text()


def test_the_image_is_named_by_the_source():
    assert re.fullmatch(r"trainyard:src-[0-9a-f]{12}", default_image())
    assert default_image() == default_image()


def test_compile_writes_the_named_packages(tmp_path, capsys):
    assert main(["compile", "taxi", "--output-dir", str(tmp_path / "d"), "--image", "i:1"]) == 0

    assert capsys.readouterr().out.split() == [str(tmp_path / "d" / "taxi.yaml")]
    assert "image: i:1" in (tmp_path / "d" / "taxi.yaml").read_text()


if __name__ == "__main__":
    from pathlib import Path

    golden_path(Path.cwd()).write_text(without_host(compile_pipeline(TEST_IMAGE, config=mnist())))
