import json
import re
from typing import NamedTuple

import pytest
from google_cloud_pipeline_components.types.artifact_types import (
    UnmanagedContainerModel,
    VertexEndpoint,
    VertexModel,
)
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import EndpointCreateOp, ModelDeployOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from google_cloud_pipeline_components.v1.vertex_notification_email import VertexNotificationEmailOp
from kfp import compiler, dsl

from vertex_local.pipelines import journal
from vertex_local.tests.support.pipeline_runs import STEP, Runs, left_in, task_detail, task_states
from vertex_local.tests.support.pipeline_steps import echo, hang, leave_note
from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import (
    PRELOAD_KFP,
    PROJECT_AND_LOCATION,
    SERVER_SCRIPT,
    running_service,
    sdk_at,
)
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("temp_folder")  # also of the service


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
    token = os.environ.get("VERTEX_EMULATOR_TOKEN", "")
    fields = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, body, fields)
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    return f"{model.metadata['resourceName']} answered {len(answer['predictions'])}"


@dsl.component(**STEP)
def fail(message: str):
    raise ValueError(message)


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
            **PROJECT_AND_LOCATION,
        ).set_display_name("train")
        measured = measure(verdict=planned.outputs["verdict"]).after(trained)
        with dsl.If(measured.outputs["verdict"] == "passed", name="if-passed"):
            echo(text=f"{number} {dsl.PIPELINE_JOB_RESOURCE_NAME_PLACEHOLDER}")
            uploaded = ModelUploadOp(
                display_name="tiny",
                parent_model=no_parent().outputs["parent"],
                unmanaged_container_model=planned.outputs["model"],
                **PROJECT_AND_LOCATION,
            ).set_caching_options(False)
            endpoint = EndpointCreateOp(
                display_name="tiny", **PROJECT_AND_LOCATION
            ).set_caching_options(False)
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

    mark = Path(folder) / f"failed-once-{kill}"
    if mark.exists():
        return "at last"
    mark.touch()
    if kill:
        os.kill(os.getpid(), 9)
    raise ValueError("not yet")


@dsl.component(**STEP)
def silent(text: dsl.OutputPath(str)):
    pass


@dsl.pipeline(name="troubles")
def troubles(folder: str, long: str):
    with dsl.ExitHandler(leave_note(folder=folder)):
        fail_once(folder=folder, kill=False).set_retry(num_retries=2)
        fail_once(folder=folder, kill=True)
        # As a new process, not a fork, to which an argument of any length can be passed.
        echo(text=long).set_env_variable("OMP_NUM_THREADS", "1")
        decided = verdict()
        with dsl.If(decided.outputs["verdict"] == "passed", name="sound"):
            echo(text="deployed")
        with dsl.If(silent().outputs["text"] == "a", name="strange"):
            echo(text="never")


@dsl.pipeline(name="hangs")
def hangs(folder: str):
    with dsl.ExitHandler(leave_note(folder=folder)):
        hung = hang(folder=folder)
        echo(text="later").after(hung)


@dsl.pipeline(name="says")
def says(text: str):
    echo(text=text)


@dsl.pipeline(name="twins")
def twins():
    first = echo(text="first")
    second = echo(text="second").after(first)
    with dsl.ParallelFor(["a", "b", "c"]) as letter:
        echo(text=letter)
    join(first=first.output, second=second.output)


@pytest.fixture(scope="module")
def temp(tmp_path_factory):
    """Return the folder of the service's temporary files."""
    return tmp_path_factory.mktemp("temp")


@pytest.fixture(scope="module")
def warm_service(tmp_path_factory, temp):
    """A service that has imported KFP, which tests share, and one starts again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temp))
        # Some steps have types of Google's components, which takes a minute to install.
        options = [*PRELOAD_KFP, "--service-packages"]
        with running_service(tmp_path_factory.mktemp("warm") / "vertex", *options) as running:
            yield running
    assert list(temp.iterdir()) == []


@pytest.fixture
def runs(warm_service, tmp_path):
    return Runs(warm_service, tmp_path)


@pytest.mark.timeout(120)
def test_a_whole_pipeline_runs_with_the_sdk_and_is_cached_the_second_time(runs, tmp_path):
    aiplatform = sdk_at(runs.service)

    code = "import os, pathlib; pathlib.Path(os.environ['AIP_MODEL_DIR']).mkdir(exist_ok=True); "
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
    assert task_detail(record, "plan")["execution"]["metadata"]["output:count"] == 3
    accuracy = task_detail(record, "measure")["outputs"]["metrics"]["artifacts"][0]["metadata"]
    assert accuracy == {"accuracy": 0.99}
    said = task_detail(record, "echo")["execution"]["metadata"]["output:Output"]
    assert said == f"3 {job.resource_name}"
    answer = task_detail(record, "ask")["execution"]["metadata"]["output:Output"]
    assert answer.endswith("@1 answered 2")
    starts = [one["startTime"] for one in record["jobDetail"]["taskDetails"] if "startTime" in one]
    assert starts == sorted(starts)
    billing_id = record["labels"]["vertex-ai-pipelines-run-billing-id"]
    labels = {"trainyard_run": "whole-1", "vertex-ai-pipelines-run-billing-id": billing_id}
    assert record["labels"] == labels
    query = {"filter": 'labels.trainyard_run="whole-1"'}
    [trained] = runs.service.do("GET", "customJobs", params=query)["customJobs"]
    assert trained["labels"] == labels
    [model] = runs.service.do("GET", "models", params=query)["models"]
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


def test_a_failing_step_fails_the_run_with_its_last_lines_and_the_exit_task_runs(runs, tmp_path):
    job = runs.run(one_step_fails, folder=str(tmp_path))
    assert job["state"] == "PIPELINE_STATE_FAILED"
    assert task_states(job) == {
        "fail": "FAILED",
        "echo": "NOT_TRIGGERED",
        "leave-note": "SUCCEEDED",
    }
    assert "[fail]" in job["error"]["message"]
    for message in (
        job["error"]["message"],
        task_detail(job, "fail")["error"]["message"],
        runs.note()["error"],
    ):
        assert "exited with code 1" in message
        assert message.rstrip().endswith("ValueError: no such luck")
        assert "outputFile" not in message, "the executor's own lines are left out"
        assert "executor.py" not in message
    assert runs.note()["state"] == "FAILED"
    assert runs.note()["job"] == job["name"]


def test_retries_kills_long_arguments_and_broken_conditions_are_told_apart(runs, tmp_path):
    job = runs.run(troubles, folder=str(tmp_path), long="a" * 200_000)
    assert job["state"] == "PIPELINE_STATE_FAILED"
    retried = task_detail(job, "fail-once")
    assert retried["state"] == "SUCCEEDED"
    assert retried["execution"]["metadata"]["output:Output"] == "at last"
    error = job["error"]["message"]
    assert "exited with code 137 (signal 9)" in error
    assert re.search(r"echo: its parameters have 19\d KiB, .*artifacts", error)
    assert "condition `inputs.parameter_values" in error
    assert task_states(job)["echo-2"] == "SUCCEEDED", "the sound condition holds"
    assert task_states(job)["echo-3"] == "NOT_TRIGGERED"
    assert runs.note()["state"] == "FAILED"


def assert_removed(log, temp):
    """Wait for the end of the temporary folders that the processes of a run had."""
    groups = set(re.findall(r"/(group-\w+)/", log))
    assert groups
    wait_until(lambda: groups.isdisjoint(path.name for path in left_in(temp)), "their end")


def test_cancelling_stops_the_step_and_its_children_and_runs_the_exit_task(runs, tmp_path, temp):
    aiplatform = sdk_at(runs.service)
    job = runs.submit(hangs, parameterValues={"folder": str(tmp_path)})
    pids = runs.pids()
    assert task_states(runs.get(job)) == {"hang": "RUNNING"}
    execution = task_detail(runs.get(job), "hang")["execution"]
    assert execution["metadata"] == {"input:folder": str(tmp_path)}
    refused = runs.service.call("DELETE", f"/v1/{job['name']}")
    assert refused.status_code == 400
    assert refused.json()["error"]["status"] == "FAILED_PRECONDITION"
    aiplatform.PipelineJob.get(job["name"]).cancel()
    assert runs.get(job)["state"] in ("PIPELINE_STATE_CANCELLING", "PIPELINE_STATE_CANCELLED")
    job = runs.wait(job)
    assert job["state"] == "PIPELINE_STATE_CANCELLED"
    assert task_states(job) == {
        "hang": "CANCELLED",
        "leave-note": "SUCCEEDED",
        "echo": "NOT_TRIGGERED",
    }
    assert runs.note()["state"] == "CANCELLED"
    assert not any(is_running(pid) for pid in pids)
    assert_removed(runs.log(job), temp)


def test_invalid_requests_are_refused_and_create_nothing(runs):
    service = runs.service
    before = service.do("GET", "pipelineJobs")
    good = {"parameterValues": {"text": "a"}}

    def message(expect: int = 400, **arguments) -> str:
        return runs.submit(says, expect=expect, **arguments)["error"]["message"]

    assert "no default" in message()
    refusal = message(**good, gcsOutputDirectory="gs://b/x")
    assert re.search(r'gcsOutputDirectory "gs://b/x" is not on this machine.*--buckets', refusal)
    assert "pipeline_job_id" in message(**good, run_id="Not_Valid")
    body = {
        "pipelineSpec": {"root": {"nonsense": 1}},
        "runtimeConfig": {"gcsOutputDirectory": "/x"},
    }
    refused = service.call("POST", "pipelineJobs", body)
    assert refused.status_code == 400
    assert "nonsense" in refused.json()["error"]["message"]
    assert service.do("GET", "pipelineJobs") == before

    job = runs.submit(says, run_id="once", **good)
    assert "already exists" in message(409, run_id="once", **good)
    assert runs.wait(job)["state"] == "PIPELINE_STATE_SUCCEEDED"
    generated = service.call(
        "POST", "pipelineJobs", {k: job[k] for k in ("pipelineSpec", "runtimeConfig")}
    ).json()
    assert runs.wait(generated)["state"] == "PIPELINE_STATE_SUCCEEDED"


@dsl.container_component
def greet(name: str, greeting: dsl.OutputPath(str)):
    script = 'mkdir -p "$(dirname "$2")"; echo "hello $1" | tee "$2"'
    return dsl.ContainerSpec(
        image="alpine", command=["sh", "-c", script, "sh"], args=[name, greeting]
    )


@dsl.component(**STEP)
def write(text: str, file: dsl.Output[dsl.Dataset]):
    with open(file.path, "w") as opened:
        opened.write(text)


@dsl.container_component
def total(files: dsl.Input[list[dsl.Dataset]], texts: dsl.OutputPath(str)):
    script = (
        "import json, os, sys; os.makedirs(os.path.dirname(sys.argv[2])); open(sys.argv[2], 'w')"
    )
    script += ".write(' '.join(open(file['uri']).read() for file in json.loads(sys.argv[1])))"
    return dsl.ContainerSpec(image="any", command=["python3", "-c", script], args=[files, texts])


@dsl.pipeline(name="programs")
def programs():
    greeted = greet(name="you; exit 1")
    with dsl.ParallelFor(["a", "b"]) as text:
        written = write(text=text)
    files = total(files=dsl.Collected(written.outputs["file"]))
    echo(text=f"{greeted.outputs['greeting']}{files.outputs['texts']}")


def test_container_components_run_as_programs_if_asked_and_as_few_at_a_time(
    runs, temp_folder, tmp_path
):
    refusal = runs.submit(programs, expect=400)["error"]["message"]
    assert "greet: it needs the container image alpine" in refusal
    options = ["--host-commands", "--parallel", "1", *PRELOAD_KFP]
    with running_service(tmp_path / "other", *options) as running:
        runs = Runs(running, tmp_path)
        job = runs.run(programs)
        assert job["state"] == "PIPELINE_STATE_SUCCEEDED", job["error"]
        echoed = task_detail(job, "echo")["execution"]["metadata"]["output:Output"]
        assert echoed == "hello you; exit 1\na b"
        events = [event["event"] for event in journal.read(runs.files(job))]
    turns = [event for event in events if event in ("task_started", "task_ended")]
    assert turns == ["task_started", "task_ended"] * 5


@dsl.pipeline(name="mail")
def mailing():
    for message in ("", "no such luck"):
        mail = VertexNotificationEmailOp(recipients=["a@example.com", "b@example.com"])
        with dsl.ExitHandler(mail, name=f"mail-{len(message)}"):
            fail(message=message) if message else echo(text="fine")


def test_a_mail_at_the_end_is_written_into_the_log(runs):
    job = runs.run(mailing)
    name = "vertex-pipelines-notification-email"
    for task, state, reason in ((name, "SUCCEEDED", ""), (f"{name}-2", "FAILED", "no such luck")):
        assert task_states(job)[task] == "SUCCEEDED"
        log = runs.files(job) / "tasks" / f"{task}.log"
        notice, to, subject, *lines = log.read_text().splitlines()
        assert "sends no mail" in notice
        assert to == "To: a@example.com, b@example.com"
        assert subject == f"Subject: {job['name']} has ended: {state}"
        assert reason in "".join(lines)


def test_tasks_of_one_component_have_separate_outputs_and_logs(runs):
    job = runs.run(twins)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED", job["error"]
    joined = task_detail(job, "join")["execution"]["metadata"]["output:Output"]
    assert joined == "first+second"
    folder = runs.files(job)
    logs = sorted(path.stem for path in (folder / "tasks").iterdir())
    assert logs == ["echo", "echo-2", "echo-3", "echo-3-run-2", "echo-3-run-3", "join"]
    assert "first" in (folder / "tasks" / "echo.log").read_text()
    assert "\033" not in runs.log(job)
    assert "\033" not in (folder / "tasks" / "echo.log").read_text()
