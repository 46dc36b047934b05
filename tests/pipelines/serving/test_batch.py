"""Batch prediction by the command: a program on this machine, a job on Vertex AI."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from google.protobuf import json_format

from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from pipelines.cli import main
from pipelines.command.serving import predict
from pipelines.errors import ResourceError
from pipelines.serving import batch
from trainer.config.trust import OWN

pytestmark = pytest.mark.fast

PARENT = "projects/p/locations/us-central1"
VERSION = ResourceName.from_version_name(f"{PARENT}/models/5@3")


class FakeApi:
    """A service with one model."""

    parent, project = PARENT, "p"

    def __init__(self):
        self.posted = []

    def list_resources(self, kind, *, filter=""):
        del kind
        model = {"name": f"{PARENT}/models/5", "createTime": "1", "displayName": "taxi"}
        return [model] if filter in ("", 'display_name="taxi"') else []

    def get(self, name):
        number = {"": "3", "previous": "2"}[name.partition("@")[2]]
        uri = "" if number == "2" else "gs://b/model"
        return {"name": f"{PARENT}/models/5", "versionId": number, "artifactUri": uri}

    find = get

    def post(self, path, body, *, find):
        self.posted.append((path, body, find))
        return {"name": f"{PARENT}/batchPredictionJobs/1"}


@pytest.fixture
def api(monkeypatch):
    """Return a service that the commands connect to."""
    found = FakeApi()
    context = SimpleNamespace(__enter__=lambda _: found, __exit__=lambda *_: None)
    kind = type("Context", (), vars(context))
    monkeypatch.setattr(predict, "api_of", lambda *_: kind())
    return found


def test_the_request_is_a_batch_prediction_job_of_vertex_ai():
    from google.cloud.aiplatform_v1.types import BatchPredictionJob

    request = batch.job_request(
        VERSION,
        name="predict-taxi",
        inputs=["gs://b/rows.jsonl"],
        output_uri="gs://b/out",
        machine="n1-standard-4",
        num_replicas=2,
    )

    job = BatchPredictionJob.pb(BatchPredictionJob())
    json_format.ParseDict(request, job)
    assert job.model == f"{PARENT}/models/5@3"
    assert job.input_config.instances_format == "jsonl"
    assert list(job.input_config.gcs_source.uris) == ["gs://b/rows.jsonl"]
    assert job.output_config.gcs_destination.output_uri_prefix == "gs://b/out"
    assert job.dedicated_resources.machine_spec.machine_type == "n1-standard-4"
    assert job.dedicated_resources.starting_replica_count == 2


@pytest.mark.parametrize(
    ("uri", "message"),
    [("rows.jsonl", "is not in a bucket"), ("gs://b/rows.csv", "on Vertex AI give JSON lines")],
)
def test_what_vertex_ai_cannot_read_is_refused(uri, message):
    given = {"name": "n", "output_uri": "gs://b/out", "machine": "m", "num_replicas": 1}
    with pytest.raises(ResourceError, match=message):
        batch.job_request(VERSION, inputs=[uri], **given)


def test_on_vertex_the_command_creates_a_job(api, capsys):
    words = ["predict", "taxi", "--input", "gs://b/rows.jsonl", "--output", "gs://b/out"]
    assert main([*words, "--on", "vertex", "--project", "p"]) == 0

    [(path, body, find)] = api.posted
    assert path == f"{PARENT}/batchPredictionJobs"
    assert (body["model"], body["displayName"]) == (f"{PARENT}/models/5@3", "predict-taxi")
    assert len(body["labels"]["trainyard_submission"]) == 32
    assert callable(find)
    assert capsys.readouterr().out == f"{PARENT}/batchPredictionJobs/1\n"

    assert main([*words, "--max-errors", "0", "--on", "vertex", "--project", "p"]) == 2
    assert "Vertex AI has no max_errors" in capsys.readouterr().err


def test_here_a_program_predicts_with_the_folder_of_the_version(api, monkeypatch, tmp_path):
    del api
    started = []

    def run(command, **_):
        started.append(command)
        return SimpleNamespace(returncode=2)

    monkeypatch.setattr(subprocess, "run", run)
    words = ["--input", "a/*.csv", "--input", "b.csv", "--output", "out", "--max-errors", "0.1"]
    (tmp_path / "model").mkdir()

    assert main(["predict", "taxi", *words]) == 2
    assert main(["predict", str(tmp_path / "model"), *words, "--format", "parquet"]) == 2

    for command, uri, more in zip(
        started, ("gs://b/model", tmp_path / "model"), ({}, {"format": "parquet"}), strict=True
    ):
        assert command[1:3] == ["-P", "-m"]
        assert command[5] == "pipelines.predictions"  # run by trainer.runtime.processes
        assert json.loads(command[6]) == {
            "model": str(uri),
            "inputs": ["a/*.csv", "b.csv"],
            "output_dir": "out",
            "options": {"max_errors": 0.1, **more},
            "trust": [],
            "is_json": False,
        }


@pytest.mark.parametrize("name", ["7", "m-1"])
def test_a_job_or_a_run_stands_for_the_model_that_it_has_trained(monkeypatch, name):
    job = {
        **{"name": f"{PARENT}/customJobs/7", "displayName": "m-1", "state": "JOB_STATE_SUCCEEDED"},
        "jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "/out"}},
    }
    monkeypatch.setattr(batch, "training_job", lambda _api, _run: "7")
    monkeypatch.setattr(FakeApi, "find", lambda _, path: job if path[-2:] in ("/7", "-1") else None)
    assert batch.find_model_of(FakeApi(), name) == ("/out/model", OWN)


def test_a_model_is_called_by_the_folder_of_its_runs_too():
    assert batch.find_version(FakeApi(), "Taxi_")[0] == VERSION
    with pytest.raises(VertexError, match=r"no model 'tax'; did you mean 'taxi'\? models: taxi"):
        batch.find_version(FakeApi(), "tax")


def test_wrong_models_and_settings_are_named(api, capsys):
    del api
    words = ["--input", "rows.csv", "--output", "out"]
    assert main(["predict", "taxi@previous", *words]) == 2
    assert "taxi@previous has no artifactUri" in capsys.readouterr().err
    assert main(["predict", "./nowhere", *words]) == 2
    assert "there is no folder './nowhere'" in capsys.readouterr().err
    assert main(["predict", "taxi", *words, "--max-errors", "2"]) == 2
    assert "--max-errors is '2'; it must be a number from 0 to 1" in capsys.readouterr().err
    assert main(["predict", "taxi", *words, "--format", "parket"]) == 2
    assert "--format is 'parket'; did you mean 'parquet'?" in capsys.readouterr().err
