"""Every method of the service, called with Google's clients; `COVERAGE.md` counts these calls."""

from typing import Any

import pytest
import yaml
from google.api_core.exceptions import BadRequest, NotFound
from google.cloud import aiplatform_v1 as v1
from google.protobuf import json_format, struct_pb2
from kfp import compiler, dsl

from vertex_local.tests.support.jobs import python_job
from vertex_local.tests.support.recorded import RECORDED
from vertex_local.tests.support.service import CREDENTIALS, RunningService, container_spec
from vertex_local.tests.support.waiting import wait_until


class Sdk:
    """Google's clients of a service, and the methods that were called, by service."""

    def __init__(self, service: RunningService) -> None:
        self.parent = service.parent
        self._url = service.url
        self._called: dict[str, set[str]] = {}

    def call(self, service: str, method: str, **arguments: Any) -> Any:
        """Call a method; return its response, at the end of a long-running one."""
        client = getattr(v1, f"{service}ServiceClient")(
            transport="rest",
            credentials=CREDENTIALS,
            client_options={"api_endpoint": self._url},
        )
        response = getattr(client, method)(**arguments)
        name = "".join(word.capitalize() for word in method.split("_"))
        assert name in RECORDED[f"{service}Service"].split()
        self._called.setdefault(service, set()).add(name)
        return response.result(60) if hasattr(response, "result") else response

    def assert_called(self, service: str) -> None:
        """Check that each method of a service that COVERAGE.md calls recorded was called."""
        assert self._called[service] == set(RECORDED[f"{service}Service"].split())


@pytest.fixture
def sdk(service) -> Sdk:
    return Sdk(service)


@dsl.component(base_image="python:3.11")
def note() -> str:
    return "done"


@dsl.pipeline(name="notes")
def notes():
    note()


@pytest.fixture
def pipeline_job(tmp_path) -> v1.PipelineJob:
    compiler.Compiler().compile(notes, str(tmp_path / "notes.yaml"))
    job = {
        "displayName": "notes",
        "pipelineSpec": yaml.safe_load((tmp_path / "notes.yaml").read_text()),
        "runtimeConfig": {"gcsOutputDirectory": str(tmp_path / "root")},
    }
    return v1.PipelineJob(json_format.ParseDict(job, v1.PipelineJob.pb()()))


@pytest.fixture
def model(artifact_folder) -> v1.Model:
    fields = {
        "displayName": "m",
        "artifactUri": str(artifact_folder),
        "containerSpec": container_spec(),
    }
    return v1.Model(json_format.ParseDict(fields, v1.Model.pb()()))


def test_models(sdk, model, tmp_path):
    name = sdk.call("Model", "upload_model", parent=sdk.parent, model=model).model
    request = {"parent": sdk.parent, "model": model, "parent_model": name}
    second = sdk.call("Model", "upload_model", request=request)
    assert second.model_version_id == "2"
    assert [one.display_name for one in sdk.call("Model", "list_models", parent=sdk.parent)] == [
        "m"
    ]
    versions = list(sdk.call("Model", "list_model_versions", name=name))
    assert {one.version_id for one in versions} == {"1", "2"}

    aliases = ["golden"]
    sdk.call("Model", "merge_version_aliases", name=f"{name}@2", version_aliases=aliases)
    changed = v1.Model(name=name, display_name="renamed", labels={"team": "a"}, description="no")
    mask = {"paths": ["display_name", "labels"]}
    sdk.call("Model", "update_model", model=changed, update_mask=mask)
    read = sdk.call("Model", "get_model", name=f"{name}@golden")
    assert (read.version_id, read.display_name, read.description) == ("2", "renamed", "")
    assert read.labels == {"team": "a"}

    evaluation = v1.ModelEvaluation(display_name="test", metrics={"auc": 0.75})
    where = {"parent": f"{name}@2", "model_evaluation": evaluation}
    made = sdk.call("Model", "import_model_evaluation", **where)
    [listed] = sdk.call("Model", "list_model_evaluations", parent=f"{name}@2")
    assert listed.name == made.name
    assert sdk.call("Model", "get_model_evaluation", name=made.name).display_name == "test"

    request = {"parent": sdk.parent, "source_model": f"{name}@2", "model_id": "copied"}
    assert sdk.call("Model", "copy_model", request=request).model.endswith("/models/copied")
    config = {"export_format_id": "custom-trained"}
    config["artifact_destination"] = {"output_uri_prefix": str(tmp_path / "exported")}
    sdk.call("Model", "export_model", name=f"{name}@2", output_config=config)
    [exported] = (tmp_path / "exported").iterdir()
    assert (exported / "saved_model.pb").read_bytes() == b"model bytes"

    aliases = ["-golden"]
    sdk.call("Model", "merge_version_aliases", name=f"{name}@2", version_aliases=aliases)
    with pytest.raises(NotFound):
        sdk.call("Model", "get_model", name=f"{name}@golden")
    sdk.call("Model", "delete_model_version", name=f"{name}@2")
    sdk.call("Model", "delete_model", name=name)
    with pytest.raises(NotFound):
        sdk.call("Model", "get_model", name=name)
    sdk.assert_called("Model")


def test_endpoints(sdk, model):
    uploaded = sdk.call("Model", "upload_model", parent=sdk.parent, model=model).model
    endpoint = v1.Endpoint(display_name="e")
    name = sdk.call("Endpoint", "create_endpoint", parent=sdk.parent, endpoint=endpoint).name
    assert [one.name for one in sdk.call("Endpoint", "list_endpoints", parent=sdk.parent)] == [name]
    changed = v1.Endpoint(name=name, display_name="renamed")
    mask = {"paths": ["display_name"]}
    sdk.call("Endpoint", "update_endpoint", endpoint=changed, update_mask=mask)
    assert sdk.call("Endpoint", "get_endpoint", name=name).display_name == "renamed"

    resources = {"machine_spec": {"machine_type": "n1-standard-2"}, "min_replica_count": 1}
    deployed = v1.DeployedModel(model=uploaded, dedicated_resources=resources)
    arguments = {"endpoint": name, "deployed_model": deployed, "traffic_split": {"0": 100}}
    deployed_id = sdk.call("Endpoint", "deploy_model", **arguments).deployed_model.id
    mutated = v1.DeployedModel(id=deployed_id, dedicated_resources={"max_replica_count": 5})
    mask = {"paths": ["dedicated_resources.max_replica_count"]}
    arguments = {"endpoint": name, "deployed_model": mutated, "update_mask": mask}
    answer = sdk.call("Endpoint", "mutate_deployed_model", **arguments).deployed_model
    assert answer.dedicated_resources.machine_spec.machine_type == "n1-standard-2"
    [listed] = sdk.call("Endpoint", "get_endpoint", name=name).deployed_models
    assert (listed.dedicated_resources.max_replica_count, listed) == (5, answer)
    instance = struct_pb2.Value(number_value=21)
    response = sdk.call("Prediction", "predict", endpoint=name, instances=[instance])
    assert response.predictions[0]["double"] == 42
    sdk.call("Endpoint", "undeploy_model", endpoint=name, deployed_model_id=deployed_id)
    sdk.call("Endpoint", "delete_endpoint", name=name)
    sdk.assert_called("Endpoint")
    sdk.assert_called("Prediction")


def test_jobs(sdk, upload, tmp_path):
    container = {"image_uri": "i", "command": ["python", "-c", "import time; time.sleep(60)"]}
    pool = {
        "replica_count": 1,
        "machine_spec": {"machine_type": "n1-standard-4"},
        "container_spec": container,
    }
    job = v1.CustomJob(display_name="j", job_spec={"worker_pool_specs": [pool]})
    name = sdk.call("Job", "create_custom_job", parent=sdk.parent, custom_job=job).name
    assert [one.name for one in sdk.call("Job", "list_custom_jobs", parent=sdk.parent)] == [name]
    sdk.call("Job", "cancel_custom_job", name=name)
    wait_until(
        lambda: (
            sdk.call("Job", "get_custom_job", name=name).state == v1.JobState.JOB_STATE_CANCELLED
        )
    )
    sdk.call("Job", "delete_custom_job", name=name)

    learning_rate = {"min_value": 0.1, "max_value": 1.0}
    tuning_job = v1.HyperparameterTuningJob(
        display_name="t",
        max_trial_count=4,
        parallel_trial_count=2,
        trial_job_spec=job.job_spec,
        study_spec={
            "metrics": [{"metric_id": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [{"parameter_id": "lr", "double_value_spec": learning_rate}],
        },
    )
    tuning = "hyperparameter_tuning_job"
    arguments = {"parent": sdk.parent, tuning: tuning_job}
    name = sdk.call("Job", f"create_{tuning}", **arguments).name
    assert [one.name for one in sdk.call("Job", f"list_{tuning}s", parent=sdk.parent)] == [name]
    wait_until(lambda: len(sdk.call("Job", f"get_{tuning}", name=name).trials) == 2)
    sdk.call("Job", f"cancel_{tuning}", name=name)
    wait_until(
        lambda: sdk.call("Job", f"get_{tuning}", name=name).state == v1.JobState.JOB_STATE_CANCELLED
    )
    sdk.call("Job", f"delete_{tuning}", name=name)

    (tmp_path / "rows.jsonl").write_text("1\n")
    batch = "batch_prediction_job"
    source = {"uris": [str(tmp_path / "rows.jsonl")]}
    target = {"output_uri_prefix": str(tmp_path)}
    batch_job = v1.BatchPredictionJob(
        display_name="b",
        model=upload("unhealthy")["model"],
        input_config={"instances_format": "jsonl", "gcs_source": source},
        output_config={"predictions_format": "jsonl", "gcs_destination": target},
    )
    name = sdk.call("Job", f"create_{batch}", parent=sdk.parent, **{batch: batch_job}).name
    assert [one.name for one in sdk.call("Job", f"list_{batch}s", parent=sdk.parent)] == [name]
    sdk.call("Job", f"cancel_{batch}", name=name)
    wait_until(
        lambda: sdk.call("Job", f"get_{batch}", name=name).state == v1.JobState.JOB_STATE_CANCELLED
    )
    sdk.call("Job", f"delete_{batch}", name=name)
    sdk.assert_called("Job")


def test_pipeline_jobs(sdk, pipeline_job):
    arguments = {"parent": sdk.parent, "pipeline_job": pipeline_job, "pipeline_job_id": "one"}
    name = sdk.call("Pipeline", "create_pipeline_job", **arguments).name
    assert [one.name for one in sdk.call("Pipeline", "list_pipeline_jobs", parent=sdk.parent)] == [
        name
    ]

    def ended() -> bool:
        state = sdk.call("Pipeline", "get_pipeline_job", name=name).state
        return state in (
            v1.PipelineState.PIPELINE_STATE_CANCELLED,
            v1.PipelineState.PIPELINE_STATE_SUCCEEDED,
        )

    sdk.call("Pipeline", "cancel_pipeline_job", name=name)
    wait_until(ended)
    request = {"parent": sdk.parent, "names": [name]}
    again = sdk.call("Pipeline", "batch_cancel_pipeline_jobs", request=request)
    assert [job.name for job in again.pipeline_jobs] == [name]
    deleted = sdk.call("Pipeline", "batch_delete_pipeline_jobs", request=request)
    assert [job.name for job in deleted.pipeline_jobs] == [name]
    arguments["pipeline_job_id"] = "two"
    name = sdk.call("Pipeline", "create_pipeline_job", **arguments).name
    request["names"] = [f"{sdk.parent}/models/1"]
    with pytest.raises(BadRequest, match="Format: projects"):
        sdk.call("Pipeline", "batch_delete_pipeline_jobs", request=request)
    request["names"] = [name, name]
    with pytest.raises(BadRequest, match="have not ended"):
        sdk.call("Pipeline", "batch_delete_pipeline_jobs", request=request)
    sdk.call("Pipeline", "batch_cancel_pipeline_jobs", request=request)
    wait_until(ended)
    sdk.call("Pipeline", "delete_pipeline_job", name=name)
    _train(sdk)
    sdk.assert_called("Pipeline")


def _train(sdk):
    training = v1.TrainingPipeline(
        display_name="t",
        training_task_definition="gs://g/custom_task_1.0.0.yaml",
        training_task_inputs=python_job("pass")["jobSpec"],
    )
    arguments = {"parent": sdk.parent, "training_pipeline": training}
    name = sdk.call("Pipeline", "create_training_pipeline", **arguments).name
    [listed] = sdk.call("Pipeline", "list_training_pipelines", parent=sdk.parent)
    assert listed.name == name

    def has_ended():
        state = sdk.call("Pipeline", "get_training_pipeline", name=name).state
        return state == v1.PipelineState.PIPELINE_STATE_SUCCEEDED

    wait_until(has_ended)
    sdk.call("Pipeline", "cancel_training_pipeline", name=name)
    sdk.call("Pipeline", "delete_training_pipeline", name=name)


def test_schedules(sdk, pipeline_job):
    request = v1.CreatePipelineJobRequest(parent=sdk.parent, pipeline_job=pipeline_job)
    schedule = v1.Schedule(
        display_name="s",
        cron="0 3 1 1 *",
        max_concurrent_run_count=1,
        create_pipeline_job_request=request,
    )
    name = sdk.call("Schedule", "create_schedule", parent=sdk.parent, schedule=schedule).name
    assert [one.name for one in sdk.call("Schedule", "list_schedules", parent=sdk.parent)] == [name]
    sdk.call("Schedule", "pause_schedule", name=name)
    with pytest.raises(BadRequest, match="PAUSED"):
        sdk.call("Schedule", "pause_schedule", name=name)
    assert sdk.call("Schedule", "get_schedule", name=name).state == v1.Schedule.State.PAUSED
    sdk.call("Schedule", "resume_schedule", name=name)
    changed = v1.Schedule(name=name, cron="0 4 1 1 *")
    sdk.call("Schedule", "update_schedule", schedule=changed, update_mask={"paths": ["cron"]})
    assert sdk.call("Schedule", "get_schedule", name=name).cron == "0 4 1 1 *"
    sdk.call("Schedule", "delete_schedule", name=name)
    sdk.assert_called("Schedule")
