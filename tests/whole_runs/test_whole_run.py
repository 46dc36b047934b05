"""What goes wrong in a whole run, and its end: nothing is left but what goes on later."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from pipelines.cli import main
from tests.conftest import write_mnist
from tests.support.processes.whole_runs import WAIT_TIMEOUT_SECONDS, Home, ended, wait

GATE_EXIT, INTERRUPTED_EXIT = 3, 130
LONG = ("--set", "train.epochs=2000")


@pytest.fixture
def idle(tmp_path, tiny_mnist) -> Home:
    """A home without a service, which its commands start."""
    return Home(tmp_path / "idle", tiny_mnist(num_train=64, num_test=20))


@pytest.fixture
def served(tmp_path) -> Iterator[Home]:
    """A home with more images, for trainings that are interrupted."""
    home = Home(tmp_path / "home", write_mnist(tmp_path / "mnist", num_train=160, num_test=20))
    with home.serving():
        yield home
        home.assert_nothing_is_left()


@pytest.mark.timeout(400)
def test_a_training_goes_on_after_a_cancellation_and_a_lost_worker(served):
    settings = ["thresholds.loss=-1", "train.epochs=20", "train.checkpoint_every_steps=20"]
    words = [word for setting in settings for word in ("--set", setting)]
    process = served.start_run(*words, cluster="parameter_server")
    served.interrupt_after_checkpoint(process)
    assert ended(process)[0] == INTERRUPTED_EXIT
    first = served.newest_checkpoint()
    assert served.states()["train"] == "CANCELLED"
    served.assert_nothing_is_left()

    process = served.start_run(*words, cluster="parameter_server")
    served.wait_for_replica("worker/1", of=process).kill()
    code, output = ended(process)

    assert code == GATE_EXIT, output
    assert "above" in output
    summary, states = served.summary(), served.states()
    assert (summary["state"], summary["verdict"]) == ("SUCCEEDED", "failed")
    assert summary["model_version"] == ""
    assert (states["upload-model"], states["teardown"]) == ("NOT_RUN", "SUCCEEDED")
    assert served.cached() == {"prepare-examples", "plan-training"}
    assert f"resuming from step {int(first.name.removeprefix('step-'))}\n" in served.job_log()
    assert served.newest_checkpoint().parent == first.parent
    served.assert_nothing_is_left()

    code, output = served.run("--set", "train.epochs=20000", "--set", "cluster.timeout_seconds=1")
    assert code == 1, output
    assert "the job's timeout of 1 s passed; chief/0 was still running" in output
    states = [served.states()[name] for name in ("train", "evaluate", "teardown")]
    assert states == ["FAILED", "NOT_RUN", "SUCCEEDED"]
    served.assert_nothing_is_left()

    (served.folder / "data/mnist/train-labels-idx1-ubyte").unlink()
    code, output = served.run(*words)
    assert code == 1, output
    assert "train-labels-idx1-ubyte is missing" in output
    assert "Traceback" not in output


def test_an_interruption_at_the_start_leaves_nothing(idle):
    process = idle.start_run()
    record = idle.state / "vertex/server.json"
    wait(record.exists, "the service", poll_seconds=0.01)
    process.send_signal(signal.SIGINT)

    code, output = ended(process)

    assert code == INTERRUPTED_EXIT, output
    idle.assert_nothing_is_left()


def test_a_killed_service_fails_the_run_and_leaves_no_process(idle):
    process = idle.start_run(*LONG)
    idle.wait_for_replica("chief/0", of=process)
    record = json.loads((idle.state / "vertex/server.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)

    code, output = ended(process)

    assert code == 1, output
    # The service of another test may have taken the port by now: it does not know the run.
    assert "UNAVAILABLE (503)" in output or "NOT_FOUND (404)" in output, output
    assert idle.summary()["state"] == "FAILED"
    assert "FAILED" in idle.call("jobs", "list"), "the next service settles what was interrupted"
    wait(lambda: not idle.processes(), "the end of all processes")
    idle.assert_nothing_is_left()


def test_killing_the_command_leaves_no_process(idle):
    process = idle.start_run(*LONG)
    idle.wait_for_replica("chief/0", of=process)
    process.kill()
    process.wait(WAIT_TIMEOUT_SECONDS)

    wait(lambda: not idle.processes(), "the end of all processes")
    idle.assert_nothing_is_left()


@pytest.mark.fast
def test_bad_usage_is_one_line_and_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    for arguments, message in (
        ("mnits", "unknown workload 'mnits'; did you mean 'mnist'"),
        ("mnist --set train.x=1", "unknown key 'train.x'"),
        ("mnist --on vertex", "needs a project"),
        ("mnist --on vertex --project p", "needs a bucket"),
        ("mnist --cluster no.yaml", "no.yaml"),
    ):
        assert main(["run", *arguments.split()]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert message in line
    assert not (tmp_path / "state").exists()
