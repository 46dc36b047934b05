"""`trainyard jobs|models|endpoints` against the real service."""

import json
import re
from functools import partial

import pytest

from pipelines.errors import ResourceError
from pipelines.jobs.log import worker_pool_task
from pipelines.places.target import LOCAL_PROJECT
from vertex_local.tests.support.service import deployment
from vertex_local.tests.support.waiting import wait_until

JOBS = f"/v1/projects/{LOCAL_PROJECT}/locations/us-central1/customJobs"
TALK = "import os, time; print('I am', os.environ['TF_CONFIG'], flush=True); time.sleep(60)"
POOL = {
    "replicaCount": 1,
    "machineSpec": {"machineType": "n1-standard-4"},
    "containerSpec": {"imageUri": "i", "command": ["python", "-c", TALK]},
}


@pytest.fixture
def job_id(service) -> str:
    body = {"displayName": "talker", "jobSpec": {"workerPoolSpecs": [POOL, POOL]}}
    return service.do("POST", JOBS, body)["name"].rpartition("/")[2]


def logs(trainyard, job_id: str, *arguments: str) -> str:
    """Return the job's log once it is not empty."""
    read = partial(trainyard, "jobs", "logs", job_id, *arguments)
    return wait_until(lambda: read()[1], "a line of the replicas", timeout_seconds=20)


def test_job_is_listed_shown_logged_and_cancelled(service, trainyard, job_id):
    def rows():
        shown = trainyard("jobs", "show", job_id)[1].splitlines()
        table = shown[shown.index("") + 1 :]
        return [dict(zip(table[0].split(), line.split(), strict=False)) for line in table[1:]]

    assert logs(trainyard, job_id, "--replica", "worker/0").count("I am") == 1
    code, output, _ = trainyard("jobs", "list")
    assert code == 0
    assert [line.split()[:2] for line in output.splitlines()] == [
        ["JOB_ID", "STATUS"],
        [job_id, "RUNNING"],
    ]
    shown = json.loads(trainyard("jobs", "show", job_id, "--json")[1])
    assert shown["displayName"] == "talker"
    wait_until(lambda: rows()[1]["CPU"] != "-", "the first sample")
    running = rows()[1]
    assert (running["REPLICA"], running["STATE"]) == ("worker/0", "RUNNING")
    assert float(running["CPU"]) >= 0
    assert "I am" in trainyard("jobs", "show", job_id)[1]

    code, _, error = trainyard("jobs", "delete", job_id)
    assert code == 2
    assert re.search(f"{job_id} is RUNNING.*trainyard jobs cancel {job_id}", error)
    assert trainyard("jobs", "wait", job_id, "--timeout", "1s")[0] == 124

    code, _, error = trainyard("jobs", "cancel", "tolker")
    assert (code, "no job 'tolker'; did you mean 'talker'? jobs: talker" in error) == (1, True)
    assert trainyard("jobs", "cancel", "talker")[0] == 0

    assert trainyard("jobs", "wait", "latest", "--timeout", "60s")[0] == 1
    ended = rows()[1]
    assert (ended["STATE"], ended["EXIT"], ended["RESTARTS"]) == ("ENDED", "143", "0")
    said = f"job {job_id} (talker) has ended already: CANCELLED\n"
    assert trainyard("jobs", "cancel", "latest")[:2] == (0, said)
    assert trainyard("jobs", "delete", job_id)[:2] == (0, f"deleted job {job_id} (talker)\n")
    assert trainyard("jobs", "show", job_id)[0] == 1

    talk = "import time; print('begins', flush=True); time.sleep(0.1); print('ends')"
    pool = {**POOL, "containerSpec": {"imageUri": "i", "command": ["python", "-c", talk]}}
    job = {"displayName": "short", "jobSpec": {"workerPoolSpecs": [pool]}}
    job_id = service.do("POST", JOBS, job)["name"].rpartition("/")[2]
    code, output, _ = trainyard("jobs", "logs", job_id, "--follow")
    assert (code, output.splitlines()) == (0, ["chief/0 begins", "chief/0 ends"])
    assert trainyard("jobs", "wait", job_id, "--timeout", "60s")[0] == 0


def test_the_default_version_is_set_by_hand_and_what_is_missing_is_one_line(
    service, trainyard, tmp_path
):
    models = JOBS.replace("customJobs", "models")
    model = {"displayName": "digits", "containerSpec": {"imageUri": "i"}}
    first = service.do("POST", f"{models}:upload", {"model": model})["model"]
    service.do("POST", f"{models}:upload", {"model": model, "parentModel": first})

    def aliases():
        rows = trainyard("models", "list")[1].splitlines()[1:]
        return [line.split()[2].strip(",") for line in rows]

    said = trainyard("models", "set-default", "digits@2")[:2]
    assert said == (0, "the default is digits@2\n")
    assert aliases() == ["previous", "default"]
    said = trainyard("models", "set-default", "digits@previous")[:2]
    assert said == (0, "the default is digits@1\n")
    assert aliases() == ["default", "previous"]
    for command in (["models", "show"], ["endpoints", "deploy"]):
        code, _, error = trainyard(*command, "digits@9")
        assert code == 1
        assert "digits has no version '9'; versions: 1, default; 2, previous\n" in error
    request = tmp_path / "request.json"
    request.write_text('{"instances": [1]}')
    error = trainyard("endpoints", "predict", "digits", "--instances", str(request))[2]
    assert "no endpoint 'digits'" in error
    assert "trainyard endpoints deploy digits@default\n" in error
    for arguments, code, message in (
        (["jobs", "show", "77"], 1, "NOT_FOUND"),
        (["models", "show", "m@2"], 1, "NOT_FOUND"),
        (["models", "set-default", "m"], 2, "write m@VERSION"),
        (["endpoints", "delete", "e"], 1, "no endpoint 'e'"),
        (["endpoints", "predict", "e", "--instances", "/no/file"], 2, "/no/file"),
    ):
        answered, output, error = trainyard(*arguments)

        assert (answered, output) == (code, ""), arguments
        assert message in error
        assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("replica", "task"), [("chief/0", "workerpool0-0"), ("ps/12", "workerpool2-12")]
)
def test_replica_is_converted_to_vertex_ais_name(replica, task):
    assert worker_pool_task(replica) == task


@pytest.mark.parametrize("replica", ["worker", "boss/0", "worker/x", "worker/"])
def test_invalid_replica_is_refused(replica):
    with pytest.raises(ResourceError, match="chief/0"):
        worker_pool_task(replica)


def test_endpoints_are_listed_with_the_states_of_their_servers(trainyard, service, upload):
    parent = f"/v1/projects/{LOCAL_PROJECT}/locations/us-central1"
    for name in ("idle", "busy"):
        endpoint = service.do("POST", f"{parent}/endpoints", {"displayName": name})["name"]
    model = upload()["model"]
    body = deployment(model)
    service.do("POST", f"/v1/{endpoint}:deployModel", body)
    code, output, _ = trainyard("endpoints", "list")
    assert code == 0
    heads, idle, busy = (line.split() for line in output.splitlines())
    assert heads == ["ENDPOINT", "ID", "SERVES", "STATUS"]
    assert idle[2:] == ["-", "-"]
    assert busy[2:] == ["tiny@1", "100%", "RUNNING"]
    second = upload(parentModel=model)["model"]
    split = deployment(f"{second}@2", trafficSplit={"0": 10})
    [deployed] = service.do("GET", f"/v1/{endpoint}")["deployedModels"]
    split["trafficSplit"][deployed["id"]] = 90
    service.do("POST", f"/v1/{endpoint}:deployModel", split)
    output = trainyard("endpoints", "list")[1]
    assert "tiny@1 90%, tiny@2 10%" in output
    [_, found] = json.loads(trainyard("endpoints", "list", "--json")[1])
    assert [(one["version"], one["traffic"]) for one in found["serves"]] == [
        ("tiny@1", 90),
        ("tiny@2", 10),
    ]


@pytest.fixture
def endpoint(service, upload):
    """Deploy the tiny server, which returns a class or doubles numbers; return its endpoint."""
    parent = f"/v1/projects/{LOCAL_PROJECT}/locations/us-central1"

    def deploy(*words: str) -> str:
        name = "-".join(("tiny", *words))
        endpoint = service.do("POST", f"{parent}/endpoints", {"displayName": name})["name"]
        body = deployment(upload(*words)["model"], trafficSplit={"0": 100})
        service.do("POST", f"/v1/{endpoint}:deployModel", body)
        return name

    return deploy


def test_predictions_for_lines_are_a_table_and_a_refused_one_is_named(
    trainyard, endpoint, tmp_path
):
    ask = ["endpoints", "predict", endpoint("classes")]
    file = tmp_path / "digits.jsonl"
    file.write_text('{"x": 1}\r\n\r\n{"x": 2}\r\n')

    code, output, _ = trainyard(*ask, "--json-instances", str(file))
    assert code == 0
    heads, *rows = (line.split() for line in output.splitlines())
    assert heads == ["CLASS", "LABEL", "PROBABILITIES"]
    assert rows == [["0", "a", "[0.75,", "0.25]"]] * 2
    code, output, _ = trainyard(*ask, "--json-instances", str(file), "--format", "json")
    assert len(json.loads(output)) == 2

    document = tmp_path / "request.json"
    document.write_text('{"instances": [{"x": 1}]}')
    code, output, _ = trainyard(*ask, "--json-request", str(document))
    assert json.loads(output) == [{"class": 0, "label": "a", "probabilities": [0.75, 0.25]}]
    code, output, _ = trainyard(*ask, "--instances", str(document), "--format", "table")
    assert output.splitlines()[0].split() == heads

    ask[2] = endpoint()
    for content, message in (
        ('1\n"2"\n', f"{file}, line 1 to 2: instances[0]: not a number"),
        ("1\n{\n", f"{file}, line 2: not JSON"),
    ):
        file.write_text(content)
        code, output, error = trainyard(*ask, "--json-instances", str(file))
        assert (code > 0, output, len(error.splitlines())) == (True, "", 1)
        assert message in error


def test_requests_of_columns_are_refused_and_their_log_is_switched_on_and_off(trainyard, service):
    parent = f"/v1/projects/{LOCAL_PROJECT}/locations/us-central1"
    endpoint = service.do("POST", f"{parent}/endpoints", {"displayName": "e"})["name"]
    endpoint_id = endpoint.rpartition("/")[2]
    refused = service.call("POST", f"/v1/{endpoint}:predict", {"inputs": [[1]]})
    assert refused.status_code == 400
    assert '{"instances": [...]}' in refused.json()["error"]["message"], "columns"
    log = ["endpoints", "log-requests", "e", "--rate"]

    def config():
        found = service.do("GET", f"/v1/{endpoint}")["predictRequestResponseLoggingConfig"]
        page = service.call("GET", f"/endpoints/{LOCAL_PROJECT}/us-central1/{endpoint_id}").text
        return {**found, "console": "logs 10% of its requests" in page}

    said = trainyard(*log, "0.1", "--table", "bq://p.d.t")[:2]
    assert said == (0, "e logs 10 % of its requests\n")
    table = {"bigqueryDestination": {"outputUri": "bq://p.d.t"}}
    assert config() == {"enabled": True, "samplingRate": 0.1, **table, "console": True}
    assert trainyard(*log, "off")[:2] == (0, "e logs no requests\n")
    assert config() == {"console": False}
    assert trainyard(*log, "0.1", "--table", "gs://p")[0] == 1
    for rate in ("0", "1.5", "on"):
        with pytest.raises(SystemExit):
            trainyard(*log, rate)
