"""The whole pipeline on few images, by the command a user types; what goes wrong, and its end."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import write_mnist
from tests.support.processes.whole_runs import (
    WAIT_TIMEOUT_SECONDS,
    Home,
    ended,
)
from tools.outputs import heads_of
from tools.pictures import PICTURES

GATE_EXIT, INTERRUPTED_EXIT = 3, 130
# Of a run that has nothing new.
CACHED = {"prepare-examples", "plan-training", "train"}
AGAIN = "evaluated before, with the same examples, settings and champion"


@pytest.fixture
def home(tmp_path, tiny_mnist) -> Home:
    return Home(tmp_path / "home", tiny_mnist(num_train=64, num_test=20))


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Home]:
    """A home where a service runs already, for tests of what happens within a run."""
    folder = tmp_path_factory.mktemp("served")
    home = Home(folder / "home", write_mnist(folder / "mnist", num_train=64, num_test=20))
    with home.serving():
        yield home
    home.assert_nothing_is_left()


def test_a_second_run_registers_no_version_and_an_endpoint_is_kept_on_request(home):
    code, output = home.run("--set", "thresholds.accuracy=0")
    assert code == 0, output
    first = home.summary()
    assert {name for name, state in home.states().items() if state != "SUCCEEDED"} == {
        "serve-known"
    }
    assert first["state"] == "SUCCEEDED"
    assert first["verdict"] == "passed"
    with Image.open(PICTURES / "run.png") as picture:
        shown = heads_of(picture.info["Description"])[1:]
    printed = [head for head in heads_of(output) if head in shown]
    assert printed == shown, "make pictures"
    assert 0 <= first["metrics"]["accuracy"] <= 1
    assert first["model_version"].endswith("@1")
    assert len(re.findall(r"^ +\d  \d \([01]\.\d{6}\)  \d$", output, re.MULTILINE)) == 10
    assert not any(task["cached"] for task in first["tasks"])
    assert "data:image/png" in home.file("evaluate/report.html")
    assert set(json.loads(home.file("evaluate/metrics"))) == {
        *("accuracy", "loss", "f1", "num_examples")
    }
    assert json.loads(home.file("release-model/metrics"))["max_difference"] <= 1e-5
    home.assert_nothing_is_left()

    code, output = home.run("--set", "thresholds.accuracy=0")
    assert code == 0, output
    second = home.summary()
    assert cached_tasks(home) == CACHED
    assert re.search("train +from the cache", output)
    assert AGAIN in home.task_log("evaluate")
    assert second["metrics"] == first["metrics"]
    assert second["model_version"] == first["model_version"]
    assert (first["is_new_version"], second["is_new_version"]) == (True, False)
    assert "no version is registered" in output
    home.assert_nothing_is_left()

    assert "default" in home.call("models", "list")
    home.assert_nothing_is_left()

    code, output = home.run("--keep-endpoint", "--set", "thresholds.accuracy=0")
    assert code == 0, output
    instances = re.search(r"endpoints predict mnist --instances (\S+)", output)[1]
    answer = json.loads(home.call("endpoints", "predict", "mnist", "--instances", instances))
    assert len(answer) == len(json.loads(Path(instances).read_text())["instances"])
    assert answer[0].keys() >= {"class", "probabilities"}
    stop = home.start("stop", "--root", str(home.state / "vertex"), module="vertex_local.cli")
    assert ended(stop)[0] == 0
    home.assert_nothing_is_left()


def test_a_version_that_replaced_another_needs_no_second_evaluation(home):
    words = ["--set", "thresholds.accuracy=0", "--set", "gate.min_gain=-1"]
    words += ["--set", "gate.baseline=none"]  # few images cannot tell a model from a constant
    with home.serving():
        assert home.run(*words)[0] == 0
        words += ["--set", "train.seed=1"]
        code, output = home.run(*words)
        assert code == 0, output
        replaced = home.summary()
        assert replaced["model_version"].endswith("@2")
        assert "version 1" in " ".join(replaced["reasons"])

        code, output = home.run(*words)

    assert code == 0, output
    again = home.summary()
    assert cached_tasks(home) == CACHED
    assert (again["model_version"], again["is_new_version"]) == (replaced["model_version"], False)
    assert again["reasons"] == replaced["reasons"]
    assert AGAIN in home.task_log("evaluate")


@pytest.mark.timeout(480)
def test_a_cancelled_training_goes_on_and_the_cache_knows_what_has_changed(tmp_path):
    home = Home(tmp_path / "home", write_mnist(tmp_path / "mnist", num_train=160, num_test=20))
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte"
    settings = ["thresholds.loss=0", "train.epochs=20", "train.checkpoint_every_steps=20"]
    words = [word for setting in settings for word in ("--set", setting)]
    with home.serving():
        process = home.start_run(*words)
        home.interrupt_after_checkpoint(process)
        assert ended(process)[0] == INTERRUPTED_EXIT
        first = home.newest_checkpoint()
        assert home.states()["train"] == "CANCELLED"

        code, output = home.run(*words)

        assert code == GATE_EXIT, output
        assert_gated(home, output, reason="above")
        assert cached_tasks(home) == {"prepare-examples", "plan-training"}
        assert f"resuming from step {int(first.name.removeprefix('step-'))}\n" in home.job_log()
        assert home.newest_checkpoint().parent == first.parent
        assert len(list(home.state.glob("runs/mnist-*/plan-training/model"))) == 1
        assert home.run(*words)[0] == GATE_EXIT
        assert cached_tasks(home) == CACHED
        assert AGAIN in home.task_log("evaluate")

        assert home.run("--no-cache", *words)[0] == GATE_EXIT

        assert cached_tasks(home) == set()
        assert "resuming" not in home.job_log()
        resumed, whole = sorted(home.state.glob("runs/mnist-*/plan-training/model"))
        assert weights(resumed) == weights(whole)

        content = labels.read_bytes()
        labels.write_bytes(content[:-2] + content[-1:] + content[-2:-1])
        assert home.run(*words)[0] == GATE_EXIT
        assert cached_tasks(home) == set()
        assert "resuming" not in home.job_log()

        labels.unlink()
        where = ["--data-dir", str(home.folder / "data"), "--set", "trust_files=true"]
        ends = [ended(home.start("submit", "mnist", "--wait", *where)), home.run(*words)]
    for code, output in ends:
        assert code == 1, output
        assert f"{labels.name} is missing" in output
        assert "Traceback" not in output
    home.assert_nothing_is_left()


def assert_gated(home: Home, output: str, *, reason: str = "below") -> None:
    """Checks that a run's model did not pass, and was not deployed."""
    summary = home.summary()
    assert (summary["state"], summary["verdict"]) == ("SUCCEEDED", "failed")
    assert summary["model_version"] == ""
    assert home.states()["upload-model"] == "NOT_RUN"
    assert home.states()["teardown"] == "SUCCEEDED"
    assert reason in output


def weights(base: Path) -> dict[str, bytes]:
    """The last checkpoint of a training, and the variables of the model that it exported."""
    newest = max((base / "checkpoints").glob("step-*"))
    files = [*newest.glob("state.data*"), *(base / "model" / "variables").glob("variables.data*")]
    assert len(files) == 2
    return {path.name: path.read_bytes() for path in files}


def cached_tasks(home: Home) -> set[str]:
    return {task["name"] for task in home.summary()["tasks"] if task["cached"]}


def test_a_killed_worker_is_replaced_and_the_run_goes_on(served):
    process = served.start_run("--set", "train.epochs=20", cluster="parameter_server")
    served.wait_for_replica("worker/1", of=process).kill()

    code, output = ended(process)

    assert code == 0, output
    assert set(served.states().values()) == {"SUCCEEDED", "NOT_RUN"}
    served.assert_nothing_is_left()


def test_training_out_of_time_fails_the_run_and_nothing_is_left(served):
    code, output = served.run("--set", "train.epochs=20000", "--set", "cluster.timeout_seconds=1")

    assert code == 1, output
    assert "the job's timeout of 1 s passed; chief/0 was still running" in output
    assert served.states()["train"] == "FAILED"
    assert served.states()["evaluate"] == "NOT_RUN"
    assert served.states()["teardown"] == "SUCCEEDED"
    served.assert_nothing_is_left()


@pytest.mark.parametrize(("where", "name"), [("home", "SIGINT"), ("served", "SIGTERM")])
def test_an_interruption_while_training_tears_everything_down(request, where, name):
    home = request.getfixturevalue(where)
    process = home.start_run("--set", "train.epochs=2000")
    home.wait_for_replica("chief/0", of=process)
    process.send_signal(signal.Signals[name])

    code, output = ended(process)

    assert code == INTERRUPTED_EXIT, output
    assert home.summary()["state"] == "CANCELLED"
    home.assert_nothing_is_left()


def test_an_interruption_at_the_start_leaves_nothing(home):
    process = home.start_run()
    deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while not list(home.state.glob("vertex/server.json")):
        assert time.monotonic() < deadline, "the service did not start"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)

    code, output = ended(process)

    assert code == INTERRUPTED_EXIT, output
    home.assert_nothing_is_left()


def test_a_killed_service_fails_the_run_and_leaves_no_process(home):
    process = home.start_run("--set", "train.epochs=2000")
    home.wait_for_replica("chief/0", of=process)
    record = json.loads((home.state / "vertex" / "server.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)

    code, output = ended(process)

    assert code == 1, output
    # The service of another test may have taken the port by now: it does not know the run.
    assert "UNAVAILABLE (503)" in output or "NOT_FOUND (404)" in output, output
    assert home.summary()["state"] == "FAILED"
    assert "FAILED" in home.call("jobs", "list"), "the next service settles what was interrupted"
    home.wait_until_no_process()
    home.assert_nothing_is_left()


def test_killing_the_command_leaves_no_process(home):
    process = home.start_run("--set", "train.epochs=2000")
    home.wait_for_replica("chief/0", of=process)
    process.kill()
    process.wait(WAIT_TIMEOUT_SECONDS)

    home.wait_until_no_process()
    home.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["run", "mnits"], "unknown workload 'mnits'; did you mean 'mnist'", id="workload"
        ),
        pytest.param(["run", "mnist", "--set", "train.x=1"], "unknown key 'train.x'", id="key"),
        pytest.param(["run", "mnist", "--on", "vertex"], "needs a project", id="no-project"),
        pytest.param(
            ["run", "mnist", "--on", "vertex", "--project", "p"], "needs a bucket", id="no-bucket"
        ),
        pytest.param(["run", "mnist", "--cluster", "no.yaml"], "no.yaml", id="no-cluster-file"),
    ],
)
def test_bad_usage_is_one_line_and_starts_nothing(home, monkeypatch, arguments, message):
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)

    code, output = ended(home.start(*arguments))

    assert code == 2, output
    assert message in output
    assert len(output.splitlines()) == 1
    assert not home.state.exists()


def test_a_service_that_runs_already_is_used_and_left_alone(home):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    root = str(home.state / "vertex")
    service = home.start("serve", "--root", root, "--port", str(port), module="vertex_local.cli")
    try:
        service.await_output(f":{port}")
        home.call("models", "list")
        assert service.poll() is None
    finally:
        service.terminate()
        service.wait(WAIT_TIMEOUT_SECONDS)
