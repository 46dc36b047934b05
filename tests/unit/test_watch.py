import dataclasses
import io
import re

import pytest
import yaml
from rich.console import Console

from components.vertex_api import VertexError
from pipelines import watch
from pipelines.config import mnist
from pipelines.epilogue import print_result
from pipelines.report import Summary, summarize
from pipelines.run import RunResult
from pipelines.run_cli import tell_end
from pipelines.target import Target
from pipelines.watch import NOT_RUN, follow, leaf_tasks, view_of

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
PROGRESS = "chief/0 step 1/2 loss 0.5 accuracy 0.5 10 examples/s 5.0 ms/step 0:01 left"
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


PREPARED = {
    "uri": "/runs/m-1/examples",
    "report": "report.html",
    "notes": "72 rows: 71 examples, 1 quarantined (fare 1)",
    "drift": "\n".join(f"f{number}: Mobile 0 → {number} %" for number in range(5, 0, -1)),
}


def summary_of_data() -> Summary:
    view = view_of(JOB, task_names=TASKS)
    view = dataclasses.replace(view, outputs={"prepare-examples": {"examples": PREPARED}})
    return summarize(view, run="m-1", config=mnist(), seconds=1)


def test_a_summary_holds_all_drift_and_where_the_data_is_described():
    summary = summary_of_data()
    assert summary.data_report == "/runs/m-1/examples/report.html"
    assert summary.data_notes == ("72 rows: 71 examples, 1 quarantined (fare 1)",)
    assert len(summary.drift) == 5


def test_the_end_of_a_submitted_run_names_them_too(capsys):
    view = dataclasses.replace(
        view_of(JOB, task_names=TASKS), outputs={"prepare-examples": {"examples": PREPARED}}
    )
    tell_end(view, "m-1")
    told = capsys.readouterr().out
    assert re.findall(r"drift: (f\d): Mobile", told) == ["f5", "f4", "f3"]
    assert "data report: /runs/m-1/examples/report.html" in told


def test_the_end_of_a_run_names_the_worst_drift_and_the_data_report(tmp_path):
    summary, console = summary_of_data(), Console(file=io.StringIO(), width=200)
    view = view_of(JOB, task_names=TASKS)
    print_result(
        RunResult(summary=summary, view=view, is_interrupted=False),
        config=mnist(),
        target=Target(
            **{"project": "p", "location": "l", "pipeline_root": "", "data_root": ""},
            state_dir=tmp_path,
        ),
        is_kept=False,
        console=console,
    )
    told = console.file.getvalue()
    assert re.findall(r"(f\d): Mobile", told) == ["f5", "f4", "f3"]
    assert "2 more in the data report" in told
    assert "data report       /runs/m-1/examples/report.html" in told


def test_latest_points_to_the_run_written_last(tmp_path, summary):
    for name in ("m-1", "m-2"):
        (tmp_path / name).mkdir()
        summary.write(tmp_path / name)

    assert (tmp_path / "latest").resolve() == tmp_path / "m-2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "m-1", "m-2"]


class FakeApi:
    """A run that trains, evaluates and ends; its job has a warning."""

    parent = "projects/p/locations/l"

    def __init__(self, *, error: VertexError | None = None) -> None:
        self.num_asked = 0
        self._error = error
        states = [{"train": "RUNNING"}, {"train": "RUNNING"}, {"train": "SUCCEEDED"}]
        self._jobs = [*({"state": "PIPELINE_STATE_RUNNING", **details(one)} for one in states)]
        self._jobs.append({"state": "PIPELINE_STATE_SUCCEEDED", **details(states[-1])})

    def get(self, name: str) -> dict:
        if not name.endswith("/replicas"):
            return self._jobs.pop(0)
        self.num_asked += 1
        if self._error:
            raise self._error
        return {"replicas": [], "warnings": ["open to the network"]}

    def list_resources(self, path: str, *, filter: str = ""):
        yield {"name": f"{self.parent}/{path}/7"}

    def log_entries(self, filter: str, *, page_token: str = ""):
        return [{"textPayload": PROGRESS}], ""


def details(states: dict[str, str]) -> dict:
    tasks = [{"taskName": name, "state": state} for name, state in states.items()]
    return {"jobDetail": {"taskDetails": tasks}}


@pytest.fixture
def is_quick(monkeypatch):
    monkeypatch.setattr(watch, "LEAST_DELAY_SECONDS", 0.0)


@pytest.mark.usefixtures("is_quick")
def test_a_warning_of_the_training_job_is_asked_for_once_and_stays():
    api = FakeApi()

    views = list(follow(api, run="m-1", task_names={"train": "train"}))

    assert {view.warnings for view in views} == {("open to the network",)}
    assert api.num_asked == 1
    summary = summarize(views[-1], run="m-1", config=mnist(), seconds=1)
    assert summary.warnings == ("open to the network",)


@pytest.mark.usefixtures("is_quick")
@pytest.mark.parametrize("code", [404, 503], ids=["vertex-ai", "bad-moment"])
def test_a_run_is_followed_to_its_end_where_its_warnings_cannot_be_read(code):
    api = FakeApi(error=VertexError(code=code, status="S", message="m"))

    views = list(follow(api, run="m-1", task_names={"train": "train"}))

    assert views[-1].state == "PIPELINE_STATE_SUCCEEDED"
    assert views[-1].warnings == ()
