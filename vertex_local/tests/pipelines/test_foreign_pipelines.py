"""Pipelines in the styles of other authors (`habits/`), run or refused by the service."""

import re

import pytest

from vertex_local.tests.pipelines.habits import branches, ends, jobs, loops, nested, refused, values
from vertex_local.tests.support.pipeline_runs import Runs, task_states

SUCCEEDING = [module.EXPECTED for module in (branches, loops, nested, values, jobs)]
# Pipelines to run twice, with the tasks that are not cached: one gets the run's name.
CACHED = {
    branches.branches: set(),
    loops.conditions: set(),
    nested.pipelines: set(),
    jobs.jobs: {"custom-training-job"},
}
# In portable mode steps are commands, and Linux limits an argument of these; macOS does not.
MARKS = {"long-argument": pytest.mark.linux("forks, which take arguments of any length")}


@pytest.fixture
def runs(forking_service, tmp_path):
    return Runs(forking_service, tmp_path)


def run(runs: Runs, pipeline, *, run_id: str) -> tuple[dict, dict]:
    """Run a pipeline to its end; return the job and the outputs of its tasks by displayed name."""
    job = runs.wait(runs.submit(pipeline, run_id=run_id))
    outputs = {
        task["execution"]["displayName"]: task["execution"].get("metadata", {}).get("output:Output")
        for task in job["jobDetail"]["taskDetails"]
        if "execution" in task
    }
    return job, outputs


def check(outputs: dict, expected: dict, words: dict) -> None:
    """Compare outputs, of texts only the beginning; RUN is the name of the run, and the like."""
    pattern = re.compile("|".join(words) or "$^")
    for name, value in expected.items():
        if isinstance(value, str) and value:
            text = pattern.sub(lambda word: words[word[0]], value)
            assert outputs[name][: len(text)] == text, name
        else:
            assert outputs[name] == value, name


def all_of(tables: list) -> list:
    return [
        pytest.param(pipeline, expected, id=pipeline.name, marks=MARKS.get(pipeline.name, ()))
        for table in tables
        for pipeline, expected in table.items()
    ]


@pytest.mark.parametrize(("pipeline", "expected"), all_of([*SUCCEEDING, ends.SUCCEEDING]))
def test_a_habit_works_and_is_cached(runs, tmp_path, pipeline, expected):
    job, outputs = run(runs, pipeline, run_id=pipeline.name)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED", job["error"]
    root = str(tmp_path / "root")
    check(outputs, expected, {"RUN": pipeline.name, "ROOT": root, "CREATED": job["createTime"]})
    if pipeline in CACHED:
        job, again = run(runs, pipeline, run_id=f"{pipeline.name}-again")
        assert [again[name] for name in expected] == [outputs[name] for name in expected]
        states = task_states(job)
        assert {name for name in states if states[name] == "SUCCEEDED"} == CACHED[pipeline]


@pytest.mark.parametrize(("pipeline", "expected"), all_of([ends.FAILING]))
def test_a_failure_has_the_expected_end(runs, pipeline, expected):
    job, outputs = run(runs, pipeline, run_id=pipeline.name)
    assert job["state"] == "PIPELINE_STATE_FAILED", job.get("error")
    check(outputs, expected, {})


@pytest.mark.parametrize("pipeline", refused.EXPECTED, ids=lambda pipeline: pipeline.name)
def test_a_pipeline_that_cannot_be_run_is_refused(runs, pipeline):
    error = runs.submit(pipeline, run_id=pipeline.name, expect=400)["error"]
    assert error["status"] == "INVALID_ARGUMENT"
    assert "importer-3" not in error["message"]  # its model has Google's image
    lines = error["message"].splitlines()
    for words in refused.EXPECTED[pipeline]:
        task, _, fact = words.partition(": ")
        assert any(f"{task}: " in line and fact in line for line in lines), words
    assert runs.service.call("GET", f"pipelineJobs/{pipeline.name}").status_code == 404
