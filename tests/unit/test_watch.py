import pytest
import yaml

from pipelines.config import mnist
from pipelines.report import Summary, summarize
from pipelines.watch import NOT_RUN, leaf_tasks, view_of

PIPELINE = """\
components:
  comp-exit: {executorLabel: e}
  comp-body:
    dag:
      tasks:
        second: {componentRef: {name: comp-step}, dependentTasks: [first]}
        first: {componentRef: {name: comp-step}, taskInfo: {name: The first}}
        if-passed: {componentRef: {name: comp-if}, dependentTasks: [second]}
  comp-if:
    dag:
      tasks:
        third: {componentRef: {name: comp-step}}
  comp-step: {executorLabel: e}
root:
  dag:
    tasks:
      teardown: {componentRef: {name: comp-exit}, dependentTasks: [body]}
      body: {componentRef: {name: comp-body}}
"""
JOB = {
    "state": "PIPELINE_STATE_FAILED",
    "error": {"code": 9, "message": "promote failed"},
    "jobDetail": {
        "taskDetails": [
            {"taskName": "body", "state": "SUCCEEDED"},
            {
                "taskName": "evaluate",
                "state": "SKIPPED",
                "startTime": "2026-11-21T10:00:00Z",
                "endTime": "2026-11-21T10:00:02.500000Z",
                "execution": {"metadata": {"input:workload": "m", "output:verdict": "passed"}},
                "outputs": {
                    "metrics": {
                        "artifacts": [{"uri": "/m", "metadata": {"accuracy": 0.99, "note": "x"}}]
                    }
                },
            },
            {"taskName": "promote", "state": "FAILED", "error": {"message": "boom"}},
            {"taskName": "predict", "state": "NOT_TRIGGERED"},
        ]
    },
}
TASKS = {name: name for name in ("evaluate", "predict", "promote", "teardown")}


def test_tasks_of_a_pipeline_come_in_the_order_they_run_without_their_groups():
    names = leaf_tasks(yaml.safe_load(PIPELINE))

    assert list(names) == ["first", "second", "third", "teardown"]
    assert names["first"] == "The first"
    assert names["second"] == "second"


def test_a_view_tells_each_task_apart():
    view = view_of(JOB, task_names=TASKS)

    evaluate, predict, promote, teardown = view.tasks
    assert view.is_final
    assert (evaluate.state, evaluate.is_cached, evaluate.seconds) == ("SUCCEEDED", True, 2.5)
    assert (promote.state, promote.error) == ("FAILED", "boom")
    assert predict.state == teardown.state == NOT_RUN


@pytest.fixture
def summary() -> Summary:
    view = view_of(JOB, task_names=TASKS)
    return summarize(view, run="m-1", config=mnist(), seconds=3.14159)


def test_a_summary_holds_what_the_pipeline_answered(summary):
    assert summary.state == "FAILED"
    assert summary.verdict == "passed"
    assert summary.metrics == {"accuracy": 0.99}
    assert summary.model_version == ""
    assert summary.error == "promote failed"
    assert summary.tasks[0] == {
        "name": "evaluate",
        "state": "SUCCEEDED",
        "seconds": 2.5,
        "cached": True,
    }


def test_latest_points_to_the_run_written_last(tmp_path, summary):
    for name in ("m-1", "m-2"):
        (tmp_path / name).mkdir()
        summary.write(tmp_path / name)

    assert (tmp_path / "latest").resolve() == tmp_path / "m-2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "m-1", "m-2"]
