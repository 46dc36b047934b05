import pytest

from vertex_local.pipelines import interrupted, journal
from vertex_local.pipelines.record import Leaf
from vertex_local.pipelines.run_state import PipelineRun, TaskError
from vertex_local.rules.values import Result, TaskValues

pytestmark = pytest.mark.fast

NAME = "projects/p/locations/l/pipelineJobs/run-1"
LEAVES = [
    Leaf("/step", "step", "A step"),
    Leaf("/exit", "exit", "exit", is_exit=True),
]
MADE = Result(True, TaskValues({"out": 1}))
NOTHING = Result(False)


@pytest.fixture
def make_run(tmp_path):
    def make(**config) -> PipelineRun:
        return PipelineRun({"name": NAME, "runtimeConfig": config}, folder=tmp_path, leaves=LEAVES)

    return make


def interrupt(tmp_path, state="FAILED", reason="interrupted: gone"):
    journal.Journal(tmp_path).write(
        "pipeline_interrupted", state=state, reason=reason, was_stopped=False
    )


def execute(run: PipelineRun, key: str, outcome=MADE.outputs, *, scope="") -> Result:
    def work(task):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return run.run_task(key, scope=scope, execute=work)


def details(tmp_path, **arguments) -> list[tuple[str, str]]:
    found = journal.task_details(journal.read(tmp_path), **arguments)
    return [(one["taskName"], one["state"]) for one in found]


def test_the_journal_has_the_end_of_each_task(make_run, tmp_path):
    run = make_run()
    assert execute(run, "/step") == MADE
    assert execute(run, "/exit", KeyError("broken")) == NOTHING
    assert details(tmp_path) == [("step", "SUCCEEDED"), ("exit", "FAILED")]
    [step, exit_task] = journal.task_details(journal.read(tmp_path))
    assert step["execution"]["metadata"] == {"output:out": 1}
    assert step["execution"]["displayName"] == "A step"
    assert exit_task["error"] == {"code": 9, "message": "KeyError: 'broken'"}
    assert "[exit].\nexit: KeyError: 'broken'" in run.error_message()


def test_after_cancelling_exit_tasks_start_within_their_timeout(make_run, monkeypatch):
    monkeypatch.setattr("vertex_local.pipelines.run_state.EXIT_TASKS_SECONDS", 0.0)
    late = make_run()
    late.cancel()
    assert execute(late, "/exit") == NOTHING


def test_an_exit_task_is_stopped_at_its_timeout_after_cancelling(make_run, tmp_path, monkeypatch):
    monkeypatch.setattr("vertex_local.pipelines.run_state.EXIT_TASKS_SECONDS", 0.1)
    run = make_run()

    def work(task):
        assert not run.must_stop(task)
        run.cancel()
        run.sleep(task, 30)
        assert run.must_stop(task)
        raise TaskError("stopped")

    run.run_task("/exit", scope="", execute=work)
    assert details(tmp_path) == [("exit", "CANCELLED")]


def test_an_interrupted_run_shows_its_running_task_as_failed(make_run, tmp_path):
    run = make_run()

    def work(task):
        assert details(tmp_path) == [("step", "RUNNING")]
        assert details(tmp_path, interrupted="gone") == [("step", "FAILED")]
        task.is_cached = True
        return TaskValues()

    run.run_task("/step", scope="", execute=work)
    assert details(tmp_path) == [("step", "SKIPPED")]


def test_a_journal_is_continued_after_its_last_complete_line(make_run, tmp_path):
    execute(make_run(), "/step")
    with (tmp_path / journal.FILE_NAME).open("a") as file:
        file.write('{"time": "2026')
    assert details(tmp_path) == [("step", "SUCCEEDED")]
    interrupt(tmp_path)
    assert [one["event"] for one in journal.read(tmp_path)] == [
        "task_started",
        "task_ended",
        "pipeline_interrupted",
    ]


def test_after_an_interruption_only_exit_tasks_start_and_successes_are_known(make_run, tmp_path):
    execute(make_run(), "/step")
    interrupt(tmp_path)
    run = make_run()
    assert run.is_resumed
    assert execute(run, "/step", ValueError("not executed again")) == MADE
    assert execute(run, "/step", scope="/loop-iteration-1") == NOTHING
    assert execute(run, "/exit") == MADE
    run.journal_untriggered()
    assert details(tmp_path) == [("step", "SUCCEEDED"), ("exit", "SUCCEEDED")]
    assert run.error_message() == "interrupted: gone"


def test_cancelling_an_interrupted_run_has_no_effect(make_run, tmp_path):
    execute(make_run(), "/step")
    interrupt(tmp_path)
    run = make_run()
    run.cancel()
    assert not run.is_cancelled


def test_exit_tasks_of_a_cancelled_and_interrupted_run_have_a_timeout(
    make_run, tmp_path, monkeypatch
):
    execute(make_run(), "/step")
    interrupt(tmp_path, state="CANCELLED")
    monkeypatch.setattr("vertex_local.pipelines.run_state.EXIT_TASKS_SECONDS", 0.0)
    run = make_run()
    assert run.is_cancelled
    assert run.previous.success("/step", "")
    assert execute(run, "/exit") == NOTHING


def test_a_run_ends_after_three_runners_that_were_not_stopped(make_run, tmp_path):
    execute(make_run(), "/step")

    def may_continue(group_state: str) -> bool:
        state = {"state": group_state, "message": "it ended"}
        return interrupted.journal_interruption(tmp_path, group_state=state, is_cancelled=False)

    assert [
        may_continue(state) for state in ["failed", "cancelled", "failed", "timed_out"]
    ] == 4 * [True]
    assert not may_continue("failed")
    ended = journal.last(journal.read(tmp_path), "pipeline_ended")
    assert ended["state"] == "FAILED"
    assert ended["error"].startswith("interrupted: it ended\n")
