"""The whole pipeline on few images, by the command a user types; what goes wrong, and its end."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import requests
import yaml

from tests.conftest import write_mnist
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import Fork, forks_with

PRELOAD = "kfp.local,kfp.dsl.executor_main,tensorflow"
RUN_TIMEOUT_SECONDS = 150
WAIT_TIMEOUT_SECONDS = 90
GATE_EXIT, INTERRUPTED_EXIT = 3, 130
# Of a run that has nothing new.
CACHED = {"prepare-examples", "plan-training", "train"}
AGAIN = "evaluated before, with the same examples, settings and champion"
RUNS = "projects/local/locations/us-central1/pipelineJobs"


class Home:
    """A user's folder: state, tiny raw data, and the `trainyard` command."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.temp = folder / "tmp"
        self.temp.mkdir(parents=True)
        (folder / "data").mkdir()
        (folder / "data" / "mnist").symlink_to(data)
        self.is_serving = False
        self._num_started = 0

    def start(self, *arguments: str, module: str = "pipelines.cli") -> Fork:
        self._num_started += 1
        return forks_with(*EVERYTHING).start(
            ["python", "-m", module, *arguments],
            log_path=self.folder / f"output-{self._num_started}.log",
            cwd=str(self.folder),
            TRAINYARD_DIR=str(self.state),
            TMPDIR=str(self.temp),
            VERTEX_EMULATOR_HOST=None,
        )

    @contextmanager
    def serving(self) -> Iterator[None]:
        """A service that runs already, with all imported, for as long as the block lasts."""
        root = str(self.state / "vertex")
        arguments = ["serve", "--root", root, "--preload", PRELOAD]
        service = self.start(*arguments, module="vertex_local.cli")
        try:
            service.await_output("ready")
            self.is_serving = True
            yield
        finally:
            self.is_serving = False
            service.terminate()
            service.communicate(timeout=WAIT_TIMEOUT_SECONDS)

    def start_run(self, *arguments: str, cluster: str = "single") -> Fork:
        path = self.folder / f"{cluster}.yaml"
        shape = {"workers": 2, "parameter_servers": 1} if cluster == "parameter_server" else {}
        path.write_text(yaml.safe_dump({"strategy": cluster, **shape}))
        tiny = ["trust_files=true", "train.epochs=2", "train.batch_size=8", "gate.baseline=none"]
        settings = [word for setting in tiny for word in ("--set", setting)]
        where = ["--data-dir", str(self.folder / "data"), "--cluster", str(path)]
        return self.start("run", "mnist", *where, *settings, *arguments)

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start_run(*arguments)
        output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
        return process.returncode, output

    def call(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
        assert process.returncode == 0, output
        return output

    def summary(self) -> dict:
        return json.loads((self.state / "runs" / "latest" / "summary.json").read_text())

    def file(self, name: str) -> str:
        return (self.state / "runs" / "latest" / name).read_text()

    def states(self) -> dict[str, str]:
        return {task["name"]: task["state"] for task in self.summary()["tasks"]}

    def processes(self) -> list[psutil.Process]:
        """Processes that have to do with this folder, by their command or environment."""
        found = []
        for process in psutil.process_iter():
            try:
                words = [*process.cmdline(), process.environ().get("TRAINYARD_DIR", "")]
            except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
                continue
            if any(str(self.folder) in word for word in words):
                found.append(process)
        return found

    def assert_nothing_is_left(self) -> None:
        """No process, no port, no temp folder; but for a service that ran already."""
        modules = sorted(process.cmdline()[2] for process in self.processes())
        kept = (
            ["vertex_local.cli", "vertex_local.processes.warm_process"] if self.is_serving else []
        )
        assert modules == kept
        assert (self.state / "vertex" / "server.json").exists() is self.is_serving
        temp = (self.state / "vertex" / "tmp").readlink() if self.is_serving else self.temp
        assert [path.name for path in temp.iterdir()] == []

    def wait_until_no_process(self) -> None:
        """For ends that nobody waited for."""
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while self.processes():
            assert time.monotonic() < deadline, [p.cmdline() for p in self.processes()]
            time.sleep(0.1)

    def newest_checkpoint(self) -> Path:
        """The last whole checkpoint of any run."""
        found = self.state.glob(
            "runs/mnist-*/plan-training/model/checkpoints/step-*/checkpoint.json"
        )
        return max((path.parent for path in found), key=lambda path: path.stat().st_mtime)

    def interrupt_after_checkpoint(self, run: Fork) -> None:
        """Interrupts a run that has written a whole checkpoint, before its training ends."""
        pattern = "runs/mnist-*/plan-training/model/checkpoints/step-*/checkpoint.json"
        chief = self.wait_for_replica("chief/0", of=run)
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while not list(self.state.glob(pattern)):
            assert run.poll() is None, run.output
            assert time.monotonic() < deadline, "no checkpoint in time"
            time.sleep(0.01)
        chief.suspend()
        run.send_signal(signal.SIGINT)
        url = json.loads((self.state / "vertex" / "server.json").read_text())["url"]
        with requests.Session() as session:
            session.trust_env = False
            while "_CANCELLING" not in session.get(f"{url}/v1/{RUNS}", timeout=30).text:
                assert time.monotonic() < deadline, run.output
        chief.resume()

    def job_log(self) -> str:
        """Return the log of the newest training job's chief."""
        logs = self.state.glob("vertex/jobs/*/workerpool0-0.log")
        return max(logs, key=lambda path: int(path.parent.name)).read_text()

    def task_log(self, task: str) -> str:
        """Return the log of a task of the newest run."""
        logs = self.state.glob(f"vertex/pipelines/*/tasks/{task}.log")
        return max(logs, key=lambda path: path.stat().st_mtime).read_text()

    def wait_for_replica(self, name: str, *, of: Fork) -> psutil.Process:
        """The process of a replica (`worker/0`) of a run."""
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            for path in (self.state / "vertex").rglob("state.json"):
                replica = json.loads(path.read_text())["replicas"].get(name, {})
                if replica.get("state") == "running":
                    return psutil.Process(replica["pid"])
            assert of.poll() is None, of.output
            time.sleep(0.1)
        pytest.fail(f"{name} did not start within {WAIT_TIMEOUT_SECONDS} s")


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


def ended(process: Fork) -> tuple[int, str]:
    output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
    return process.returncode, output


def test_a_second_run_registers_no_version_and_an_endpoint_is_kept_on_request(home):
    code, output = home.run("--set", "thresholds.accuracy=0")
    assert code == 0, output
    first = home.summary()
    assert {name for name, state in home.states().items() if state != "SUCCEEDED"} == {
        "serve-known"
    }
    assert first["state"] == "SUCCEEDED"
    assert first["verdict"] == "passed"
    assert 0 <= first["metrics"]["accuracy"] <= 1
    assert first["model_version"].endswith("@1")
    assert len(re.findall(r"^ +\d +\d +[01]\.\d{6}  \d +(?:yes|no)$", output, re.MULTILINE)) == 10
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
