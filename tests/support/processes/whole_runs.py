"""Whole runs by the command a user types, in a folder of their own."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import requests
import yaml

from tests.support.processes.everything import EVERYTHING
from vertex_local.client import authorization, token_of
from vertex_local.tests.support.forks import Fork, forks_with
from vertex_local.tests.support.platform import IS_PORTABLE
from vertex_local.tests.support.waiting import wait_until

PRELOAD = "kfp.local,kfp.dsl.executor_main,tensorflow"
RUN_TIMEOUT_SECONDS = 400 if IS_PORTABLE else 240  # each step a new interpreter
WAIT_TIMEOUT_SECONDS = 90
PARENT = "projects/local/locations/us-central1"
CHECKPOINTS = "runs/mnist-*/plan-training/model/checkpoints/step-*/checkpoint.json"
TINY = ("trust_files=true", "train.epochs=2", "train.batch_size=8", "gate.baseline=none")
SHAPES = {"single": {}, "parameter_server": {"workers": 2, "parameter_servers": 1}}
wait = partial(wait_until, timeout_seconds=WAIT_TIMEOUT_SECONDS)


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

    def start(self, *arguments: str, module: str = "pipelines.cli", **environment: str) -> Fork:
        self._num_started += 1
        return forks_with(*EVERYTHING).start(
            ["python", "-m", module, *arguments],
            log_path=self.folder / f"output-{self._num_started}.log",
            cwd=str(self.folder),
            **{
                "TRAINYARD_DIR": str(self.state),
                "TMPDIR": str(self.temp),
                "VERTEX_EMULATOR_HOST": None,
                **environment,
            },
        )

    @contextmanager
    def serving(self, *options: str) -> Iterator[None]:
        """A service that runs already, with all imported, for as long as the block lasts."""
        root = str(self.state / "vertex")
        arguments = ["serve", "--root", root, "--preload", PRELOAD, *options]
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
        path.write_text(yaml.safe_dump({"strategy": cluster, **SHAPES[cluster]}))
        settings = [word for setting in TINY for word in ("--set", setting)]
        where = ["--data-dir", str(self.folder / "data"), "--cluster", str(path)]
        return self.start("run", "mnist", *where, *settings, *arguments)

    def run(self, *arguments: str) -> tuple[int, str]:
        return ended(self.start_run(*arguments))

    def call(self, *arguments: str, **environment: str) -> str:
        """Return the output of a command, which must succeed."""
        code, output = ended(self.start(*arguments, **environment))
        assert code == 0, output
        return output

    @property
    def url(self) -> str:
        """Address of the service, which runs."""
        return str(json.loads((self.state / "vertex" / "server.json").read_text())["url"])

    def ask(self, path: str, body: Any = None) -> requests.Response:
        """Return the service's response to a GET, or a POST of a body, at a path below /v1."""
        headers = authorization(token_of(self.state / "vertex"))
        method = "GET" if body is None else "POST"
        with requests.Session() as session:
            session.trust_env = False
            return session.request(
                method, f"{self.url}/v1/{path}", json=body, headers=headers, timeout=60
            )

    def resources(self, path: str) -> list[dict[str, Any]]:
        """Return what a list of the service holds."""
        listed = self.ask(f"{PARENT}/{path}").json()
        return next(iter(listed.values()), [])

    def elsewhere(self, *arguments: str) -> str:
        """Return the output of a command with another state folder and this service."""
        return self.call(
            *arguments,
            TRAINYARD_DIR=str(self.folder / "elsewhere"),
            VERTEX_EMULATOR_HOST=self.url.removeprefix("http://"),
            VERTEX_EMULATOR_TOKEN=token_of(self.state / "vertex"),
        )

    def runner_at(self, task: str, *, of: Fork) -> psutil.Process:
        """Return the process that executes the tasks of a run, once it starts a task."""

        def found() -> psutil.Process | None:
            assert of.poll() is None, of.output
            for state in (self.state / "vertex" / "pipelines").glob("*/state.json"):
                runner = json.loads(state.read_text())["replicas"].get("pipeline", {})
                is_running = runner.get("state") == "running"
                events = "".join(path.read_text() for path in state.parent.glob("events*"))
                if is_running and f'"name": "{task}"' in events:
                    return psutil.Process(runner["pid"])
            return None

        return wait(found, task)

    def summary(self) -> dict:
        return json.loads(self.file("summary.json"))

    def file(self, name: str) -> str:
        return (self.state / "runs" / "latest" / name).read_text()

    def states(self) -> dict[str, str]:
        return {task["name"]: task["state"] for task in self.summary()["tasks"]}

    def cached(self) -> set[str]:
        return {task["name"] for task in self.summary()["tasks"] if task["cached"]}

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
        warm = [] if IS_PORTABLE else ["vertex_local.processes.warm_process"]
        kept = ["vertex_local.cli", *warm] if self.is_serving else []
        assert modules == kept, modules
        assert (self.state / "vertex" / "server.json").exists() is self.is_serving
        temp = (self.state / "vertex" / "tmp").readlink() if self.is_serving else self.temp
        assert [path.name for path in temp.iterdir()] == []

    def newest_checkpoint(self) -> Path:
        """The last whole checkpoint of any run."""
        found = (path.parent for path in self.state.glob(CHECKPOINTS))
        return max(found, key=lambda path: path.stat().st_mtime)

    def interrupt_after_checkpoint(self, run: Fork) -> None:
        """Interrupts a run that has written a whole checkpoint, before its training ends."""
        chief = self.wait_for_replica("chief/0", of=run)
        wait(lambda: list(self.state.glob(CHECKPOINTS)), "a checkpoint", poll_seconds=0.01)
        chief.suspend()
        run.send_signal(signal.SIGINT)
        wait(lambda: "_CANCELLING" in self.ask(f"{PARENT}/pipelineJobs").text, "the cancellation")
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

        def found() -> psutil.Process | None:
            assert of.poll() is None, of.output
            for path in (self.state / "vertex").rglob("state.json"):
                replica = json.loads(path.read_text())["replicas"].get(name, {})
                if replica.get("state") == "running":
                    return psutil.Process(replica["pid"])
            return None

        return wait(found, name)


def ended(process: Fork) -> tuple[int, str]:
    output, _ = process.communicate(timeout=RUN_TIMEOUT_SECONDS)
    return process.returncode, output
