"""`trainyard models upload` against the real service."""

import json
import time
from pathlib import Path

import pytest

from components.errors import StepError
from components.model_version import champion, saved_model
from components.model_version.recorded import serving_container, upload_version
from components.model_version.saved_model import check_saved_model
from components.prepare_examples.raw_data.files import Object
from components.shared.vertex.api import EMULATOR_VARIABLE, connect
from components.shared.vertex.labels import MODEL_LABEL, STATE_LABEL
from pipelines.errors import ResourceError
from pipelines.package.image import default_image
from pipelines.places.target import LOCAL_PROJECT
from pipelines.serving import upload as upload_module
from pipelines.serving.upload import upload
from tests.support.servers.models import aliases, versions
from trainer.errors import ConfigError
from trainer.serving.digests import combined
from vertex_local.tests.support.jobs import pool
from vertex_local.tests.support.service import running_service

WAIT_SECONDS = 60
DESCRIBED = '{"workload": "mnist", "facts": {}}'
TRAIN = f"""
import os, pathlib
folder = pathlib.Path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True)
(folder / "saved_model.pb").write_bytes(b"graph")
(folder / "workload.json").write_text('{DESCRIBED}')
"""


@pytest.fixture
def job(api, tmp_path):
    """Start a job of one replica that runs a program, wait for a state, and return its id."""

    def start(code=TRAIN, *, state="SUCCEEDED", name="mnist-1", output=True) -> str:
        spec = {"workerPoolSpecs": [pool(code)]}
        if output:
            spec["baseOutputDirectory"] = {"outputUriPrefix": str(tmp_path / name)}
        created = api.post(f"{api.parent}/customJobs", {"displayName": name, "jobSpec": spec})
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := api.get(created["name"]))["state"].endswith(state):
            assert time.monotonic() < deadline, f"{found} was not {state} in time"
            time.sleep(0.05)
        return created["name"].rpartition("/")[2]

    return start


@pytest.fixture
def folder(tmp_path):
    """Write a folder with these files, empty except workload.json."""

    def write(*names: str, under="model"):
        (tmp_path / under).mkdir(exist_ok=True)
        for name in names:
            path = tmp_path / under / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(DESCRIBED if name == "workload.json" else "")
        return str(tmp_path / under)

    return write


def test_uploaded_job_model_equals_the_pipelines_version(api, job, trainyard):
    job_id = job()
    code, output, _ = trainyard("models", "upload", job_id, "--name", "mnist")

    assert code == 0
    assert output.splitlines()[0].startswith("mnist@1 (default) is uploaded: a model of mnist")
    assert "trainyard endpoints deploy mnist@1 " in output
    [version] = versions(api).values()
    assert version["containerSpec"] == serving_container(default_image())
    assert len(version["labels"][MODEL_LABEL]) == 32
    assert STATE_LABEL not in version["labels"], "no run has uploaded it, none is to promote it"


def test_a_model_of_a_users_folder_gets_the_image_of_the_folder(tmp_path):
    reference = "/state/code/churn-0123456789ab"
    for content, image in (
        ({"workload": "mnist"}, default_image()),
        ({"workload": "churn", "reference": reference}, f"{default_image()}-churn-0123456789ab"),
        (["no description"], default_image()),
    ):
        (tmp_path / "workload.json").write_text(json.dumps(content))
        assert upload_module.image_of_model(str(tmp_path)) == image


def test_later_versions_have_the_given_aliases(api, job, trainyard, folder):
    job()
    model = folder("saved_model.pb", "workload.json")
    put = ["models", "upload", "--name", "mnist"]

    assert trainyard(*put, "mnist-1")[0] == 0
    code, output, _ = trainyard(*put, model, "--version-alias", "candidate")
    assert (code, aliases(api)) == (0, {"1": ["default"], "2": ["candidate"]})
    assert "trainyard models set-default mnist@2 " in output
    assert "was moved" not in output
    put_default = [*put, model, "--version-alias", "default", "--version-alias", "best"]
    assert "the alias default was moved from mnist@1" in trainyard(*put_default)[1]
    assert aliases(api) == {"1": ["previous"], "2": ["candidate"], "3": ["best", "default"]}
    assert trainyard("models", "set-default", "mnist@2")[0] == 0
    assert aliases(api)["2"] == ["candidate", "default"]
    _, output, _ = trainyard(*put, model, "--version-alias", "candidate")
    assert output.splitlines()[-1] == "the alias candidate was moved from mnist@2"
    assert aliases(api)["4"] == ["candidate"]


def test_name_means_the_newest_job_and_a_slash_a_folder(job, trainyard, folder, monkeypatch):
    job()
    job("raise SystemExit(1)", state="FAILED")
    model = folder("saved_model.pb", "workload.json", under="mnist-1")
    monkeypatch.chdir(Path(model).parent)

    code, _, error = trainyard("models", "upload", "mnist-1", "--name", "mnist")
    assert (code, "is FAILED" in error) == (2, True)
    assert trainyard("models", "upload", "./mnist-1", "--name", "mnist")[0] == 0
    folder("saved_model.pb", "workload.json", under="exported")
    assert trainyard("models", "upload", "exported", "--name", "mnist")[0] == 0
    assert trainyard("models", "upload", f"file://{model}/", "--name", "mnist")[0] == 0


def test_a_job_without_a_finished_model_is_refused(job, trainyard):
    for code, ending, message in (
        ("import time; time.sleep(60)", {"state": "RUNNING"}, "trainyard jobs wait"),
        ("raise SystemExit(1)", {"state": "FAILED"}, "--name mnist-1"),
        ("pass", {}, "mnist-1/model does not exist"),
        ("pass", {"output": False}, "has no baseOutputDirectory"),
    ):
        job_id = job(code, **ending)

        answered, said, error = trainyard("models", "upload", job_id, "--name", "mnist")

        assert (answered, said, len(error.splitlines())) == (2, "", 1), message
        assert message in error
        trainyard("jobs", "cancel", job_id)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "saved_model.pb.*empty"),
        (["notes.txt"], "/model has no saved_model.pb"),
        (["model/saved_model.pb"], "did you mean .*/model/model?"),
        (["1550/saved_model.pb", "1660/saved_model.pb"], "did you mean .*/model/1660?"),
        (["m.keras"], r"keras.models.load_model\('.*m.keras'\).export\(DIR\)"),
        (["checkpoint", "ckpt-1.index"], r"checkpoints.*export\(DIR\)"),
        (
            ["saved_model.pb", "variables/variables.index"],
            r"lacks variables/variables.data-00000-of-00001,.*copy",
        ),
        (
            ["saved_model.pb", "variables/variables.data-00000-of-00001"],
            "lacks variables/variables.index,",
        ),
        (
            [
                "saved_model.pb",
                "variables/variables.index",
                "variables/variables.data-00001-of-00002",
            ],
            "lacks variables/variables.data-00000-of-00002,",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_folder_without_a_complete_model_is_refused(folder, files, message):
    with pytest.raises(StepError, match=message):
        check_saved_model(folder(*files))


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"workload": "iris", "facts": {}}', '{"workload": "mnist"}']
)
def test_model_that_the_server_cannot_load_is_refused(folder, tmp_path, content):
    path = folder("saved_model.pb", "workload.json")
    (tmp_path / "model" / "workload.json").write_text(content)

    with pytest.raises(StepError, match="does not describe a model"):
        check_saved_model(path)


def test_invalid_argument_is_one_line(trainyard, tmp_path):
    file = tmp_path / "saved_model.pb"
    file.touch()
    for arguments, message in (
        (["77", "--name", "mnist"], "neither a job nor a folder '77'"),
        (["/no/folder", "--name", "mnist"], "/no/folder does not exist"),
        ([str(file), "--name", "mnist"], "is a file; give its folder"),
        (["gs://b/m", "--name", "mnist"], "gs://b/m: buckets are reached"),
        (["/x", "--name", "a@2"], "--name 'a@2' is not allowed"),
        (["/x", "--name", "m", "--version-alias", "v"], "--version-alias 'v' is not allowed"),
        (["/x", "--name", "m", "--version-alias", "1a"], "--version-alias '1a' is not allowed"),
    ):
        code, output, error = trainyard("models", "upload", *arguments)

        assert (code, output, len(error.splitlines())) == (2, "", 1), arguments
        assert message in error


def test_vertex_ai_gets_a_buckets_model_and_the_jobs_image(api, job, monkeypatch):
    sent = {}

    def fake(api, **arguments):
        sent.update(arguments)
        return upload_version(api, **{**arguments, "artifact_uri": ""})

    names = ["saved_model.pb", "workload.json"]
    objects = [Object(f"gs://b/m/{name}", 1, 1) for name in names]
    contents = {"saved_model.pb": b"", "workload.json": DESCRIBED.encode()}
    monkeypatch.setattr(saved_model, "find_objects", lambda pattern: objects)
    monkeypatch.setattr(saved_model, "read_companion", lambda uri, name: contents[name])
    digests = {"saved_model.pb": "0" * 64}
    monkeypatch.setattr(champion, "read_digests", lambda _uri: digests)
    monkeypatch.setattr(upload_module, "upload_version", fake)
    with pytest.raises(ConfigError, match="--image"):
        upload(api, "gs://b/m", name="m", is_remote=True)
    with pytest.raises(ResourceError, match="gcloud storage cp -r /x gs://BUCKET/FOLDER"):
        upload(api, "/x", name="m", is_remote=True)
    objects.pop()
    objects.insert(0, Object("gs://b/m/variables/variables.index", 1, 1))
    with pytest.raises(ResourceError, match=r"variables\.data-00000-of-00001"):
        upload(api, "gs://b/m/", name="m", image="r.example/i:1", is_remote=True)
    objects[:] = [Object(f"gs://b/m/{name}", 1, 1) for name in names]

    upload(api, "gs://b/m/", name="m", image="r.example/i:1", is_remote=True)
    assert (sent["artifact_uri"], sent["image"]) == ("gs://b/m", "r.example/i:1")
    assert sent["labels"] == {MODEL_LABEL: combined(digests)[:32]}
    digests.clear()  # of another program's model
    upload(api, "gs://b/m/", name="m", image="r.example/i:1", is_remote=True)
    assert sent["labels"] == {}
    source = upload_module.find_source(api, job())
    assert source.job_image == "image"


def test_upload_with_a_lost_response_is_made_once(tmp_path, monkeypatch, folder):
    path = folder("saved_model.pb", "workload.json")
    faults = "POST:reset=0.5,503=0.2;seed=3"
    with running_service(tmp_path / "bad", "--faults", faults) as service:
        monkeypatch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
        api = connect(LOCAL_PROJECT, "us-central1")
        for _ in range(8):
            upload_version(api, display_name="m", artifact_uri=path, image="i", labels={})
        assert list(versions(api)) == [str(number) for number in range(1, 9)]
        assert "reset after" in (service.root / "serve.log").read_text()


def test_a_new_models_id_is_readable_and_allowed(api, folder):
    uri = folder("saved_model.pb", "workload.json")
    for name in ("mnist", "2nd model", "_x.Y" * 30, "é", "Ä-1"):
        version = upload_version(api, display_name=name, artifact_uri=uri, image="i", labels={})

        assert api.get(version.unversioned)["displayName"] == name
        assert name != "mnist" or version.id.startswith("mnist-")
