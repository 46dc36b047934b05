"""Pipelines in the styles of other authors (`habits/`), run or refused by the service."""

import time

import pytest
import yaml
from kfp import compiler

from vertex_local.tests.pipelines.habits import branches, ends, jobs, loops, nested, refused, values
from vertex_local.tests.support.service import running_service

FINAL = ("PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED", "PIPELINE_STATE_CANCELLED")
SUCCEEDING = [branches, loops, nested, values, jobs]


@pytest.fixture(scope="module")
def warm_service(tmp_path_factory):
    root = tmp_path_factory.mktemp("foreign") / "vertex"
    with running_service(root, "--preload", "kfp.local,kfp.dsl.executor_main") as running:
        yield running


@pytest.fixture
def submit(warm_service, tmp_path):
    def do(pipeline, *, run_id: str):
        path = tmp_path / "pipeline.yaml"
        compiler.Compiler().compile(pipeline, str(path))
        body = {
            "displayName": run_id,
            "pipelineSpec": yaml.safe_load(path.read_text()),
            "runtimeConfig": {"gcsOutputDirectory": str(tmp_path / "root")},
        }
        params = {"pipelineJobId": run_id}
        return warm_service.call("POST", "pipelineJobs", body, params=params)

    return do


@pytest.fixture
def run(warm_service, submit):
    """Run a pipeline to its end; return the job and the outputs of its tasks named "result"."""

    def do(pipeline, *, run_id: str):
        response = submit(pipeline, run_id=run_id)
        assert response.ok, response.json()["error"]["message"]
        job = await_end(warm_service, response.json()["name"])
        results = [
            one["execution"].get("metadata", {}).get("output:Output")
            for one in job["jobDetail"]["taskDetails"]
            if one["execution"]["displayName"] == "result"
        ]
        assert len(results) == 1, job.get("error")
        return job, results[0]

    return do


def await_end(service, name: str, *, timeout_seconds: float = 60) -> dict:
    deadline = time.monotonic() + timeout_seconds
    while (job := service.call("GET", f"/v1/{name}").json())["state"] not in FINAL:
        assert time.monotonic() < deadline, f"{name} has not ended in {timeout_seconds} s: {job}"
        time.sleep(0.05)
    return job


def all_of(modules: list) -> list:
    return [
        pytest.param(getattr(module, name), expected, id=name)
        for module in modules
        for name, expected in module.EXPECTED.items()
    ]


@pytest.mark.parametrize(("pipeline", "expected"), all_of(SUCCEEDING))
def test_a_habit_works(run, tmp_path, pipeline, expected):
    job, result = run(pipeline, run_id=pipeline.name)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED", job["error"]
    if isinstance(expected, str):
        words = {"RUN": pipeline.name, "ROOT": str(tmp_path / "root"), "CREATED": job["createTime"]}
        for word, value in words.items():
            expected = expected.replace(word, value)
        result = result[: len(expected)] if expected else result
    assert result == expected


CACHED = [
    branches.one_of_artifacts,
    loops.loop_artifacts_with_condition,
    loops.loop_nested_with_condition,
    nested.three_deep,
    jobs.job_of_component,
]


@pytest.mark.parametrize("pipeline", CACHED, ids=lambda pipeline: pipeline.name)
def test_a_repeated_run_uses_the_cache(run, pipeline):
    _, first = run(pipeline, run_id=f"{pipeline.name}-first")
    job, second = run(pipeline, run_id=f"{pipeline.name}-second")
    assert second == first
    states = [one["state"] for one in job["jobDetail"]["taskDetails"]]
    assert set(states) - {"NOT_TRIGGERED"} == {"SKIPPED"}


@pytest.mark.parametrize(("pipeline", "expected"), all_of([ends]))
def test_a_failure_has_the_expected_end(run, pipeline, expected):
    state, result = expected
    job, found = run(pipeline, run_id=pipeline.name)
    assert job["state"] == f"PIPELINE_STATE_{state}", job.get("error")
    assert found[: len(result)] == result


@pytest.mark.parametrize(("pipeline", "expected"), all_of([refused]))
def test_a_pipeline_that_cannot_be_run_is_refused(submit, warm_service, pipeline, expected):
    response = submit(pipeline, run_id=pipeline.name)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    lines = error["message"].splitlines()
    for words in expected:
        task, _, fact = words.partition(": ")
        assert any(f"{task}: " in line and fact in line for line in lines), words
    assert warm_service.call("GET", f"pipelineJobs/{pipeline.name}").status_code == 404
