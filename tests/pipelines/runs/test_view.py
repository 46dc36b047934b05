import pytest
import yaml

from components.shared.vertex.errors import VertexError
from components.shared.vertex.task_details import NOT_RUN, leaf_tasks
from pipelines.runs import view as run_view
from pipelines.runs.execute import summary_of
from pipelines.runs.view import follow, run_log_lines, view_of

pytestmark = pytest.mark.fast

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


def spec_of(*names: str) -> dict:
    tasks = {name: {"componentRef": {"name": "c"}} for name in names}
    return {"components": {"c": {}}, "root": {"dag": {"tasks": tasks}}}


JOB = {
    "state": "PIPELINE_STATE_FAILED",
    "pipelineSpec": spec_of("evaluate", "predict", "promote", "teardown"),
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


def test_leaf_tasks_are_in_execution_order():
    names = leaf_tasks({"pipelineSpec": yaml.safe_load(PIPELINE)})

    assert list(names) == ["first", "second", "third", "teardown"]
    assert names["first"] == "The first"
    assert names["second"] == "second"


def test_view_has_the_state_of_each_task():
    view = view_of(JOB)

    evaluate, predict, promote, teardown = view.tasks
    assert view.is_final
    assert (evaluate.state, evaluate.is_cached, evaluate.seconds) == ("SUCCEEDED", True, 2.5)
    assert (promote.state, promote.error) == ("FAILED", "boom")
    assert predict.state == teardown.state == NOT_RUN


class FakeApi:
    """A run that trains, evaluates and ends; its job has a warning."""

    parent = "projects/p/locations/l"
    min_poll_seconds = 0.0

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

    find = get

    def list_resources(self, path: str, *, filter: str = ""):
        yield {"name": f"{self.parent}/{path}/7"}

    def log_entries(self, filter: str, *, page_token: str = ""):
        return [{"textPayload": PROGRESS}], ""


def details(states: dict[str, str]) -> dict:
    tasks = [{"taskName": name, "state": state} for name, state in states.items()]
    return {"pipelineSpec": spec_of(*states), "jobDetail": {"taskDetails": tasks}}


@pytest.fixture
def is_quick(monkeypatch):
    monkeypatch.setattr(run_view, "MIN_DELAY_SECONDS", 0.0)


@pytest.mark.usefixtures("is_quick")
def test_warnings_of_the_training_job_are_requested_once():
    api = FakeApi()

    views = list(follow(api, run="m-1"))

    assert {view.warnings for view in views} == {("open to the network",)}
    assert api.num_asked == 1
    summary = summary_of(views[-1], {}, run="m-1")
    assert summary.warnings == ("open to the network",)


@pytest.mark.usefixtures("is_quick")
@pytest.mark.parametrize("code", [404, 503], ids=["vertex-ai", "bad-moment"])
def test_run_is_followed_without_readable_warnings(code):
    api = FakeApi(error=VertexError(code=code, status="S", message="m"))

    views = list(follow(api, run="m-1"))

    assert views[-1].state == "PIPELINE_STATE_SUCCEEDED"
    assert views[-1].warnings == ()


KFP = [
    "<frozen runpy>:128: RuntimeWarning: 'kfp.dsl.executor_main' found in sys.modules",
    "[KFP Executor 2026-11-29 17:47:58,516 INFO]: Got executor_input:",
    *("{", '    "inputs": {', "    }", "}"),
]


def test_the_log_of_the_task_that_trains_has_its_jobs_but_not_what_kfp_says_of_itself():
    tasks = {"train": {"componentRef": {"name": "comp"}}}
    launcher = {"executorDetail": {"containerDetail": {"mainJob": "projects/p/locations/l/x/1"}}}

    class Api(FakeApi):
        def get(self, name):
            spec = {"components": {"comp": {}}, "root": {"dag": {"tasks": tasks}}}
            details = {"taskDetails": [{"taskName": "train", **launcher}]}
            return {"state": "PIPELINE_STATE_SUCCEEDED", "pipelineSpec": spec, "jobDetail": details}

        find = get

        def log_entries(self, filter, *, page_token=""):
            job = filter.rpartition("=")[2].strip('"')
            labels = {"task_name": "workerpool1-0"}
            texts = [
                *(KFP if job == "1" else ()),
                f"[KFP Executor 2026-11-29 17:47:58,516 INFO]: of job {job}",
            ]
            return [{"textPayload": text, "resource": {"labels": labels}} for text in texts], ""

    assert list(run_log_lines(Api(), "m-1", task="train")) == [
        "train  of job 1",
        "train  worker/0 of job 7",
    ]
