import itertools
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
import yaml
from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import EndpointCreateOp, ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import compiler, dsl

from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import SERVER_SCRIPT, running_service, sdk_at

pytestmark = pytest.mark.usefixtures("temp_folder")  # also of the service
FINAL_STATES = [f"PIPELINE_STATE_{state}" for state in ("SUCCEEDED", "FAILED", "CANCELLED")]
STEP = {"install_kfp_package": False, "base_image": "python:3.11"}
PRELOADED = ("--preload", "kfp.local,kfp.dsl.executor_main")
NUMBERS = itertools.count(1)
WHERE = {"project": "demo", "location": "us-central1"}


@dsl.component(**STEP)
def plan(
    settings: str, folder: str, server: str, model: dsl.Output[UnmanagedContainerModel]
) -> NamedTuple("Plan", [("worker_pool_specs", list), ("verdict", str), ("count", int)]):
    import json

    code = json.loads(settings)["code"]
    command = {"image_uri": "any", "command": ["python", "-c", code]}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    model.uri = f"{folder}/job/model"
    model.metadata["containerSpec"] = {
        "imageUri": "any",
        "command": ["python", server],
        "ports": [{"containerPort": 8080}],
        "deploymentTimeout": "20s",
    }
    return ([{**pool, "container_spec": command}], json.loads(settings)["verdict"], 3)


@dsl.component(**STEP)
def measure(verdict: str, metrics: dsl.Output[dsl.Metrics]) -> NamedTuple(
    "Outputs", [("verdict", str), ("reasons", str)]
):
    metrics.log_metric("accuracy", 0.99)
    return (verdict, 'it\'s "good"')


@dsl.component(**STEP)
def no_parent(parent: dsl.Output[VertexModel]):
    parent.metadata["resourceName"] = ""


@dsl.component(**STEP)
def ask(endpoint: dsl.Input[VertexEndpoint], model: dsl.Input[VertexModel]) -> str:
    import json
    import os
    import urllib.request

    host = os.environ["VERTEX_EMULATOR_HOST"]
    url = f"http://{host}/v1/{endpoint.metadata['resourceName']}:predict"
    body = json.dumps({"instances": [1, 2]}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    return f"{model.metadata['resourceName']} answered {len(answer['predictions'])}"


@dsl.component(**STEP)
def leave_note(folder: str, status: dsl.PipelineTaskFinalStatus):
    import json
    from pathlib import Path

    fields = {"state": status.state, "job": status.pipeline_job_resource_name}
    note = json.dumps({**fields, "error": status.error_message})
    (Path(folder) / "note.json").write_text(note)


@dsl.component(**STEP)
def fail(message: str):
    raise ValueError(message)


@dsl.component(**STEP)
def hang(folder: str):
    import os
    import subprocess
    import sys
    import time
    from pathlib import Path

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(folder) / "pids").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


@dsl.component(**STEP)
def echo(text: str) -> str:
    import sys

    sys.stdout.write(f"\033[91m{text}\033[0m\n")
    return text


@dsl.component(**STEP)
def join(first: str, second: str) -> str:
    return f"{first}+{second}"


@dsl.component(**STEP)
def verdict() -> NamedTuple("Outputs", [("verdict", str), ("reasons", str)]):
    return ("passed", 'it\'s "good"')


@dsl.pipeline(name="whole")
def whole(settings: str, folder: str, server: str, keep: bool = False, number: int = 3):
    with dsl.ExitHandler(leave_note(folder=folder), name="run"):
        planned = plan(settings=settings, folder=folder, server=server)
        trained = CustomTrainingJobOp(
            display_name="train",
            worker_pool_specs=planned.outputs["worker_pool_specs"],
            base_output_directory=f"{folder}/job",
            **WHERE,
        ).set_display_name("train")
        measured = measure(verdict=planned.outputs["verdict"]).after(trained)
        with dsl.If(measured.outputs["verdict"] == "passed", name="if-passed"):
            echo(text=f"{number} {dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER}")
            uploaded = ModelUploadOp(
                display_name="tiny",
                parent_model=no_parent().outputs["parent"],
                unmanaged_container_model=planned.outputs["model"],
                **WHERE,
            ).set_caching_options(False)
            endpoint = EndpointCreateOp(display_name="tiny", **WHERE).set_caching_options(False)
            deployed = ModelDeployOp(
                model=uploaded.outputs["model"],
                endpoint=endpoint.outputs["endpoint"],
                traffic_split={"0": "100"},
                dedicated_resources_machine_type="n1-standard-4",
                dedicated_resources_min_replica_count=1,
                dedicated_resources_max_replica_count=1,
            ).set_caching_options(False)
            ask(endpoint=endpoint.outputs["endpoint"], model=uploaded.outputs["model"]).after(
                deployed
            )
        with dsl.If(measured.outputs["verdict"] == "failed", name="if-failed"):
            fail(message="never")


@dsl.pipeline(name="one-step-fails")
def one_step_fails(folder: str):
    with dsl.ExitHandler(leave_note(folder=folder)):
        failed = fail(message="no such luck")
        echo(text="later").after(failed)


@dsl.component(**STEP)
def fail_once(folder: str, kill: bool) -> str:
    import os
    from pathlib import Path

    mark = Path(folder) / "failed-once"
    if mark.exists():
        return "at last"
    mark.touch()
    if kill:
        os.kill(os.getpid(), 9)
    raise ValueError("not yet")


@dsl.pipeline(name="retries")
def retries(folder: str):
    fail_once(folder=folder, kill=False).set_retry(num_retries=2)


@dsl.pipeline(name="is-killed")
def is_killed(folder: str):
    fail_once(folder=folder, kill=True)


@dsl.pipeline(name="hangs")
def hangs(folder: str):
    with dsl.ExitHandler(leave_note(folder=folder)):
        hung = hang(folder=folder)
        echo(text="later").after(hung)


@dsl.pipeline(name="job-hangs")
def job_hangs(folder: str):
    code = f"import os, time; open('{folder}/pids', 'w').write(str(os.getpid())); time.sleep(600)"
    command = {"image_uri": "any", "command": ["python", "-c", code]}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    with dsl.ExitHandler(leave_note(folder=folder)):
        CustomTrainingJobOp(
            display_name="train", worker_pool_specs=[{**pool, "container_spec": command}], **WHERE
        )


@dsl.pipeline(name="types")
def types(required: str, number: int, ratio: float = 0.5, optional: Optional[str] = None):  # noqa: UP045 (kfp reads no unions)
    echo(text=required)


@dsl.component(**STEP)
def silent(text: dsl.OutputPath(str)):
    pass


@dsl.pipeline(name="conditions")
def conditions(folder: str):
    with dsl.ExitHandler(leave_note(folder=folder)):
        decided = verdict()
        with dsl.If(decided.outputs["verdict"] == "passed", name="sound"):
            echo(text="deployed")
        with dsl.If(silent().outputs["text"] == "a", name="strange"):
            echo(text="never")


@dsl.pipeline(name="twins")
def twins():
    first = echo(text="first")
    second = echo(text="second").after(first)
    with dsl.ParallelFor(["a", "b", "c"]) as letter:
        echo(text=letter)
    join(first=first.output, second=second.output)


class Runs:
    """Client that starts pipelines over REST and waits for their end."""

    def __init__(self, service, folder: Path) -> None:
        self.service = service
        self.folder = folder
        self.root = folder / "root"

    def spec(self, pipeline) -> dict:
        path = self.folder / "pipeline.yaml"
        compiler.Compiler().compile(pipeline, str(path))
        return yaml.safe_load(path.read_text())

    def submit(self, pipeline, *, expect: int = 200, run_id: str = "", **config) -> dict:
        body = {
            "displayName": "test",
            "pipelineSpec": self.spec(pipeline),
            "runtimeConfig": {"gcsOutputDirectory": str(self.root), **config},
        }
        params = {"pipelineJobId": run_id or f"run-{next(NUMBERS)}"}
        response = self.service.call("POST", "pipelineJobs", body, params=params)
        assert response.status_code == expect, response.text
        return response.json()

    def get(self, job: dict) -> dict:
        return self.service.call("GET", f"/v1/{job['name']}").json()

    def wait(self, job: dict, *, timeout_seconds: float = 40) -> dict:
        deadline = time.monotonic() + timeout_seconds
        while (now := self.get(job))["state"] not in FINAL_STATES:
            assert time.monotonic() < deadline, f"not final in time: {now}\n{self.log(job)}"
            time.sleep(0.05)
        return now

    def run(self, pipeline, **parameters) -> dict:
        return self.wait(self.submit(pipeline, parameterValues=parameters))

    def files(self, job: dict) -> Path:
        return self.service.root / "pipelines" / job["name"].rpartition("/")[2]

    def log(self, job: dict) -> str:
        return (self.files(job) / "pipeline.log").read_text()

    def note(self) -> dict:
        return json.loads((self.folder / "note.json").read_text())

    def pids(self, *, timeout_seconds: float = 20) -> list[int]:
        path = self.folder / "pids"
        await_true(lambda: path.exists() and path.read_text(), "the step to run", timeout_seconds)
        return [int(pid) for pid in path.read_text().split()]


@pytest.fixture
def cold_runs(service, tmp_path):
    """Runs on a service that starts a new interpreter for each process."""
    return Runs(service, tmp_path)


@pytest.fixture
def runs(temp_folder, tmp_path):
    """Runs on a service of the test's own, which has imported KFP."""
    with running_service(tmp_path / "vertex", *PRELOADED) as running:
        yield Runs(running, tmp_path)


@pytest.fixture(scope="module")
def warm_service(tmp_path_factory):
    """A service that has imported KFP, shared by tests."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "temp").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder / "temp"))
        with running_service(folder / "vertex", *PRELOADED) as running:
            yield running
    assert list((folder / "temp").iterdir()) == []


@pytest.fixture
def warm_runs(warm_service, tmp_path):
    return Runs(warm_service, tmp_path)


def await_true(holds, what: str, timeout_seconds: float = 20) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {timeout_seconds} s for {what}"
        time.sleep(0.02)


def left_in(temp_folder: Path) -> list[Path]:
    """Return the entries of the service's temporary folder."""
    [of_service] = temp_folder.iterdir()
    return list(of_service.iterdir())


def states(job: dict) -> dict[str, str]:
    return {one["taskName"]: one["state"] for one in job["jobDetail"]["taskDetails"]}


def detail(job: dict, name: str) -> dict:
    return next(one for one in job["jobDetail"]["taskDetails"] if one["taskName"] == name)


@pytest.mark.timeout(120)
def test_a_whole_pipeline_runs_with_the_sdk_and_is_cached_the_second_time(
    runs, tmp_path, temp_folder
):
    aiplatform = sdk_at(runs.service.url)

    code = "import os, pathlib; pathlib.Path(os.environ['AIP_MODEL_DIR']).mkdir(parents=True); "
    code += "pathlib.Path(os.environ['AIP_MODEL_DIR'], 'saved_model.pb').write_text('model')"
    compiler.Compiler().compile(whole, str(tmp_path / "whole.yaml"))

    def submit(job_id: str):
        job = aiplatform.PipelineJob(
            display_name="whole",
            template_path=str(tmp_path / "whole.yaml"),
            job_id=job_id,
            pipeline_root=str(tmp_path / "root"),
            labels={"trainyard_run": job_id},
            parameter_values={
                "settings": json.dumps({"verdict": "passed", "code": code}),
                "folder": str(tmp_path),
                "server": str(SERVER_SCRIPT),
            },
        )
        job.submit()
        job.wait()
        return job

    job = submit("whole-1")
    assert job.state.name == "PIPELINE_STATE_SUCCEEDED"
    done = {task.task_name: task.state.name for task in job.task_details}
    assert done.pop("fail") == "NOT_TRIGGERED"
    assert set(done.values()) == {"SUCCEEDED"}, done
    assert runs.note() == {"state": "SUCCEEDED", "job": job.resource_name, "error": None}

    record = runs.get({"name": job.resource_name})
    assert detail(record, "plan")["execution"]["metadata"]["output:count"] == 3
    accuracy = detail(record, "measure")["outputs"]["metrics"]["artifacts"][0]["metadata"]
    assert accuracy == {"accuracy": 0.99}
    said = detail(record, "echo")["execution"]["metadata"]["output:Output"]
    assert said == f"3 {job.resource_name}"
    answer = detail(record, "ask")["execution"]["metadata"]["output:Output"]
    assert answer.endswith("@1 answered 2")
    starts = [one["startTime"] for one in record["jobDetail"]["taskDetails"] if "startTime" in one]
    assert starts == sorted(starts)
    billing_id = record["labels"]["vertex-ai-pipelines-run-billing-id"]
    labels = {"trainyard_run": "whole-1", "vertex-ai-pipelines-run-billing-id": billing_id}
    assert record["labels"] == labels
    [trained] = runs.service.do("GET", "customJobs")["customJobs"]
    assert trained["labels"] == labels
    [model] = runs.service.do("GET", "models")["models"]
    assert model["labels"] == labels

    again = {task.task_name: task.state.name for task in submit("whole-2").task_details}
    cached = {name for name, state in again.items() if state == "SKIPPED"}
    assert {"plan", "custom-training-job", "measure"} <= cached
    assert again["model-upload"] == again["model-deploy"] == "SUCCEEDED"
    assert runs.note()["job"].endswith("whole-2")
    assert len(aiplatform.PipelineJob.list(filter='labels.trainyard_run="whole-1"')) == 1

    job.delete()
    assert not (runs.service.root / "pipelines" / "whole-1").exists()
    assert runs.service.call("GET", "pipelineJobs/whole-1").status_code == 404
    assert runs.service.stop() == 0
    assert list(temp_folder.iterdir()) == []


def test_a_failing_step_fails_the_run_with_its_last_lines_and_the_exit_task_runs(
    warm_runs, tmp_path
):
    job = warm_runs.run(one_step_fails, folder=str(tmp_path))
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert states(job) == {"fail": "FAILED", "echo": "NOT_TRIGGERED", "leave-note": "SUCCEEDED"}
    assert "[fail]" in job["error"]["message"]
    for message in (
        job["error"]["message"],
        detail(job, "fail")["error"]["message"],
        warm_runs.note()["error"],
    ):
        assert "exited with code 1" in message
        assert message.rstrip().endswith("ValueError: no such luck")
        assert "outputFile" not in message, "the executor's own lines are left out"
        assert "executor.py" not in message
    assert warm_runs.note()["state"] == "FAILED"
    assert warm_runs.note()["job"] == job["name"]


def test_a_task_with_retries_is_retried(warm_runs, tmp_path):
    job = warm_runs.run(retries, folder=str(tmp_path))
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED"
    [task] = job["jobDetail"]["taskDetails"]
    assert task["state"] == "SUCCEEDED"
    assert task["execution"]["metadata"]["output:Output"] == "at last"


def test_a_killed_step_fails_with_its_signal(warm_runs, tmp_path):
    job = warm_runs.run(is_killed, folder=str(tmp_path))
    assert "exited with code 137 (signal 9)" in job["error"]["message"]


def test_a_condition_that_cannot_be_evaluated_fails_the_run(warm_runs, tmp_path):
    job = warm_runs.run(conditions, folder=str(tmp_path))
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert "condition `inputs.parameter_values" in job["error"]["message"]
    assert states(job)["echo"] == "SUCCEEDED", "the sound condition holds"
    assert states(job)["echo-2"] == "NOT_TRIGGERED"
    assert warm_runs.note()["state"] == "FAILED"


def test_cancelling_stops_the_step_and_its_children_and_runs_the_exit_task(
    runs, tmp_path, temp_folder
):
    aiplatform = sdk_at(runs.service.url)
    job = runs.submit(hangs, parameterValues={"folder": str(tmp_path)})
    pids = runs.pids()
    assert states(runs.get(job)) == {"hang": "RUNNING"}
    refused = runs.service.call("DELETE", f"/v1/{job['name']}")
    assert refused.status_code == 400
    assert refused.json()["error"]["status"] == "FAILED_PRECONDITION"
    aiplatform.PipelineJob.get(job["name"]).cancel()
    assert runs.get(job)["state"] in ("PIPELINE_STATE_CANCELLING", "PIPELINE_STATE_CANCELLED")
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    assert states(job) == {"hang": "CANCELLED", "leave-note": "SUCCEEDED", "echo": "NOT_TRIGGERED"}
    assert runs.note()["state"] == "CANCELLED"
    assert not any(is_running(pid) for pid in pids)
    assert left_in(temp_folder) == []


def test_cancelling_a_run_cancels_its_custom_job(warm_runs, tmp_path):
    job = warm_runs.submit(job_hangs, parameterValues={"folder": str(tmp_path)})
    [pid] = warm_runs.pids()
    warm_runs.service.do("POST", f"/v1/{job['name']}:cancel", {})
    job = warm_runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    assert states(job) == {"custom-training-job": "CANCELLED", "leave-note": "SUCCEEDED"}
    [trained] = warm_runs.service.do("GET", "customJobs")["customJobs"]
    assert trained["state"] == "JOB_STATE_CANCELLED"
    assert warm_runs.note()["state"] == "CANCELLED"
    assert not is_running(pid)


def test_after_a_kill_of_the_runner_the_exit_task_runs_and_no_process_remains(
    cold_runs, tmp_path, temp_folder
):
    runs = cold_runs
    job = runs.submit(hangs, parameterValues={"folder": str(tmp_path)})
    pids = runs.pids()
    state = json.loads((runs.files(job) / "state.json").read_text())
    os.kill(state["replicas"]["pipeline"]["pid"], signal.SIGKILL)
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert "SIGKILL" in job["error"]["message"]
    assert states(job) == {"hang": "FAILED", "leave-note": "SUCCEEDED", "echo": "NOT_TRIGGERED"}
    assert runs.note()["state"] == "FAILED"
    assert "SIGKILL" in runs.note()["error"]
    assert "SIGKILL" in detail(job, "hang")["error"]["message"]
    assert not any(is_running(pid) for pid in pids)
    assert left_in(temp_folder) == []


def test_the_next_service_runs_the_exit_tasks_of_a_run_that_was_interrupted(runs, tmp_path):
    service = runs.service
    job = runs.submit(hangs, parameterValues={"folder": str(tmp_path)})
    pids = runs.pids()
    service.kill()
    service.start()
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert job["error"] == {"code": 10, "message": "interrupted: the service stopped"}
    assert states(job) == {"hang": "FAILED", "leave-note": "SUCCEEDED", "echo": "NOT_TRIGGERED"}
    assert runs.note()["error"] == "interrupted: the service stopped"
    assert not any(is_running(pid) for pid in pids)


def test_stopping_the_service_ends_its_runs(runs, tmp_path):
    service = runs.service
    job = runs.submit(hangs, parameterValues={"folder": str(tmp_path)})
    pids = runs.pids()
    assert service.stop() == 0
    assert not any(is_running(pid) for pid in pids)
    service.start()
    assert runs.get(job)["state"] == "PIPELINE_STATE_CANCELLED"
    assert runs.note()["state"] == "CANCELLED"


def test_invalid_requests_are_refused_and_create_nothing(runs):
    service = runs.service
    good = {"required": "a", "number": 1.0}

    def message(expect: int = 400, pipeline=types, **arguments) -> str:
        return runs.submit(pipeline, expect=expect, **arguments)["error"]["message"]

    assert "no default" in message(parameterValues={})
    refusal = message(parameterValues=good, gcsOutputDirectory="gs://b/x")
    assert re.search(r'gcsOutputDirectory "gs://b/x".*absolute path', refusal)
    assert "pipelineJobId" in message(parameterValues=good, run_id="Not_Valid")
    body = {"pipelineSpec": {"root": {"nonsense": 1}}, "runtimeConfig": {}}
    refused = service.call("POST", "pipelineJobs", body)
    assert refused.status_code == 400
    assert "nonsense" in refused.json()["error"]["message"]
    assert service.do("GET", "pipelineJobs") == {"pipelineJobs": []}

    job = runs.submit(types, run_id="once", parameterValues=good)
    assert "already exists" in message(409, run_id="once", parameterValues=good)
    assert runs.wait(job)["state"] == "PIPELINE_STATE_SUCCEEDED"
    generated = service.call(
        "POST", "pipelineJobs", {k: job[k] for k in ("pipelineSpec", "runtimeConfig")}
    ).json()
    assert runs.wait(generated)["state"] == "PIPELINE_STATE_SUCCEEDED"


def test_tasks_of_one_component_have_separate_outputs_and_logs(warm_runs):
    job = warm_runs.run(twins)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED", job["error"]
    joined = detail(job, "join")["execution"]["metadata"]["output:Output"]
    assert joined == "first+second"
    folder = warm_runs.files(job)
    logs = sorted(path.stem for path in (folder / "tasks").iterdir())
    assert logs == ["echo", "echo-2", "echo-3", "echo-3-run-2", "echo-3-run-3", "join"]
    assert "first" in (folder / "tasks" / "echo.log").read_text()
    assert "\033" not in warm_runs.log(job)
    assert "\033" not in (folder / "tasks" / "echo.log").read_text()
