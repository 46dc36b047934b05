"""Forecasts of the tasks of small pipelines, from records of earlier runs."""

import json

import pytest
import yaml
from kfp import compiler, dsl

from pipelines.plan.earlier_tasks import EarlierTasks, component_names
from pipelines.plan.forecast import CACHED, DEPENDS, RUNS, SKIPPED, forecast
from trainer import Json

CREATED = "2026-11-26T10:00:00+00:00"


@dsl.component(base_image="python:3.11")
def count(path: str, most: int = 10) -> int:
    """Count rows."""
    return most


@dsl.component(base_image="python:3.11")
def train(name: str, rows: int, model: dsl.Output[dsl.Model]) -> str:
    """Train."""
    return "passed"


@dsl.component(base_image="python:3.11")
def serve(model: dsl.Input[dsl.Model]):
    """Serve."""


@dsl.pipeline(name="small")
def small(path: str, name: str = "taxi"):
    """Count, train, and serve what passes."""
    counted = count(path=path)
    trained = train(name=f"train-{name}", rows=counted.output)
    with dsl.If(trained.outputs["Output"] == "passed", name="if-passed"):
        serve(model=trained.outputs["model"]).set_caching_options(False)


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> Json:
    path = tmp_path_factory.mktemp("spec") / "small.yaml"
    compiler.Compiler().compile(small, str(path))
    return yaml.safe_load(path.read_text())


def earlier(
    spec: Json, *, counted: int = 7, name: str = "taxi", state="SUCCEEDED", **facts
) -> Json:
    """Return the record of a run which has counted rows and trained on them."""
    artifact = {"artifacts": [{"uri": f"/runs/{name}/model"}]}
    inputs = {"input:path": "a.csv", "input:most": 10, "output:Output": counted}
    trained = {"input:name": f"train-{name}", "input:rows": counted, "output:Output": "passed"}
    times = {"startTime": CREATED, "endTime": "2026-11-26T10:00:05+00:00"}
    details = [
        {"taskName": "count", "state": state, "execution": {"metadata": inputs}, **times},
        {
            "taskName": "train",
            "state": state,
            "execution": {"metadata": trained},
            "outputs": {"model": artifact},
            **times,
        },
        {"taskName": "serve", "state": state},
    ]
    return {
        "name": "projects/p/locations/l/pipelineJobs/earlier-1",
        "createTime": CREATED,
        "pipelineSpec": spec,
        "jobDetail": {"taskDetails": details},
        **facts,
    }


def states(spec: Json, jobs: list[Json], **parameters) -> dict[str, str]:
    planned = forecast(spec, {"path": "a.csv", **parameters}, EarlierTasks(jobs))
    return {task.name: task.state for task in planned}


def test_without_an_earlier_run_all_tasks_run_and_the_condition_is_open(spec):
    assert states(spec, []) == {"count": RUNS, "train": RUNS, "serve": DEPENDS}


def test_the_same_inputs_are_cached_and_decide_the_condition(spec):
    assert states(spec, [earlier(spec)]) == {"count": CACHED, "train": CACHED, "serve": RUNS}


def test_a_changed_parameter_runs_its_task_and_those_that_take_its_output(spec):
    assert states(spec, [earlier(spec)], path="b.csv")["count"] == RUNS
    planned = forecast(spec, {"path": "b.csv"}, EarlierTasks([earlier(spec)]))
    assert planned[1].inputs.unknown == ["count"]
    assert states(spec, [earlier(spec)], name="mnist") == {
        "count": CACHED,
        "train": RUNS,
        "serve": DEPENDS,
    }


def test_a_changed_component_or_image_is_not_cached(spec):
    changed = json.loads(json.dumps(spec))
    changed["deploymentSpec"]["executors"]["exec-count"]["container"]["image"] = "other:1"
    assert states(changed, [earlier(spec)])["count"] == RUNS


def test_a_failed_task_is_not_cached_and_one_that_was_cached_is(spec):
    assert states(spec, [earlier(spec, state="FAILED")])["count"] == RUNS
    assert states(spec, [earlier(spec, state="SKIPPED")])["count"] == CACHED


def test_an_output_that_is_gone_is_not_cached(spec):
    tasks = EarlierTasks([earlier(spec)], is_reusable=lambda task: False)
    planned = forecast(spec, {"path": "a.csv"}, tasks)
    assert planned[0].state == RUNS
    assert planned[0].earlier.run == "earlier-1"


def test_an_older_run_serves_a_setting_that_was_changed_back(spec):
    runs = [earlier(spec, name="mnist"), earlier(spec, name="taxi")]
    planned = forecast(spec, {"path": "a.csv", "name": "taxi"}, EarlierTasks(runs))
    assert planned[1].state == CACHED
    assert planned[1].earlier.outputs.artifacts == {"model": ("/runs/taxi/model",)}


def test_foreseen_outputs_decide_conditions(spec):
    for verdict, state in (("passed", RUNS), ("failed", SKIPPED)):
        outputs = {"train": lambda inputs, verdict=verdict: {"Output": verdict}}
        planned = forecast(spec, {"path": "a.csv"}, EarlierTasks([]), outputs=outputs)
        assert planned[2].state == state


def test_runs_are_read_only_as_far_as_they_are_needed(spec):
    read = []

    def jobs():
        for number in range(3):
            read.append(number)
            yield earlier(spec)

    forecast(spec, {"path": "a.csv"}, EarlierTasks(jobs()))
    assert read == [0]


def test_component_names_include_tasks_of_groups(spec):
    assert set(component_names(spec)) == {"count", "train", "serve", "condition-1"}


def test_loops_and_comparisons_of_numbers_are_followed_as_the_service_does(tmp_path):
    @dsl.pipeline(name="looped")
    def looped(paths: list, most: int = 5):
        with dsl.ParallelFor(paths) as path:
            count(path=path)
        with dsl.If(most > 3, name="if-many"):
            count(path="a").set_display_name("many")
        with dsl.Else():
            count(path="b").set_display_name("few")

    compiler.Compiler().compile(looped, str(tmp_path / "looped.yaml"))
    spec = yaml.safe_load((tmp_path / "looped.yaml").read_text())
    planned = {task.name: task for task in forecast(spec, {"paths": ["a"]}, EarlierTasks([]))}
    assert {name: task.state for name, task in planned.items()} == {
        "count": RUNS,
        "many": RUNS,
        "few": SKIPPED,
    }
    assert planned["count"].inputs.unknown == ["for-loop-1"]
