"""Pipelines in the styles of other authors (`habits/`), run or refused by the service."""

import pytest

from vertex_local.tests.pipelines.habits import branches, ends, jobs, loops, nested, refused, values
from vertex_local.tests.support.pipeline_runs import Runs, task_states
from vertex_local.tests.support.service import PRELOAD_KFP, running_service

SUCCEEDING = [branches, loops, nested, values, jobs]


@pytest.fixture(scope="module")
def warm_service(tmp_path_factory):
    root = tmp_path_factory.mktemp("foreign") / "vertex"
    with running_service(root, *PRELOAD_KFP) as running:
        yield running


@pytest.fixture
def runs(warm_service, tmp_path):
    return Runs(warm_service, tmp_path)


def run(runs: Runs, pipeline, *, run_id: str) -> tuple[dict, dict]:
    """Run a pipeline to its end; return the job and the output of its task named "result"."""
    job = runs.wait(runs.submit(pipeline, run_id=run_id))
    [result] = [
        task["execution"].get("metadata", {}).get("output:Output")
        for task in job["jobDetail"]["taskDetails"]
        if task["execution"]["displayName"] == "result"
    ]
    return job, result


# In portable mode steps are commands, and Linux limits an argument of these; macOS does not.
MARKS = {"long_argument": pytest.mark.linux("forks, which take arguments of any length")}


def all_of(modules: list) -> list:
    return [
        pytest.param(getattr(module, name), expected, id=name, marks=MARKS.get(name, ()))
        for module in modules
        for name, expected in module.EXPECTED.items()
    ]


@pytest.mark.parametrize(("pipeline", "expected"), all_of(SUCCEEDING))
def test_a_habit_works(runs, tmp_path, pipeline, expected):
    job, result = run(runs, pipeline, run_id=pipeline.name)
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
def test_a_repeated_run_uses_the_cache(runs, pipeline):
    _, first = run(runs, pipeline, run_id=f"{pipeline.name}-first")
    job, second = run(runs, pipeline, run_id=f"{pipeline.name}-second")
    assert second == first
    assert set(task_states(job).values()) - {"NOT_TRIGGERED"} == {"SKIPPED"}


@pytest.mark.parametrize(("pipeline", "expected"), all_of([ends]))
def test_a_failure_has_the_expected_end(runs, pipeline, expected):
    state, result = expected
    job, output = run(runs, pipeline, run_id=pipeline.name)
    assert job["state"] == f"PIPELINE_STATE_{state}", job.get("error")
    assert output[: len(result)] == result


@pytest.mark.parametrize(("pipeline", "expected"), all_of([refused]))
def test_a_pipeline_that_cannot_be_run_is_refused(runs, pipeline, expected):
    error = runs.submit(pipeline, run_id=pipeline.name, expect=400)["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    lines = error["message"].splitlines()
    for words in expected:
        task, _, fact = words.partition(": ")
        assert any(f"{task}: " in line and fact in line for line in lines), words
    assert runs.service.call("GET", f"pipelineJobs/{pipeline.name}").status_code == 404
