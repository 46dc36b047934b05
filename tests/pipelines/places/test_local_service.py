"""Lifetime of a service that commands share: until the last one ends."""

import fcntl
import json
import os
import stat
import sys
from pathlib import Path

import psutil
import pytest
from kfp import compiler, dsl

from components.shared.vertex.api import EMULATOR_VARIABLE, TOKEN_VARIABLE, connect
from pipelines.errors import LocalServiceError
from pipelines.places.local_service import PRELOAD, PRELOAD_VARIABLE, SOURCE, local_service
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT, STATE_DIR_VARIABLE
from tests.support.processes.everything import EVERYTHING
from trainer import paths
from vertex_local import client
from vertex_local.client import START_FILE, USERS_FILE, service_pid, stop_service
from vertex_local.machine import buckets
from vertex_local.tests.support.forks import Fork, forks_with
from vertex_local.tests.support.service import PRELOAD_KFP
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)
WAIT_SECONDS = 60
NUM_FIRST_COMMANDS, NUM_ROUNDS = 5, 2


@dsl.component(base_image="r.example/python:3.11")
def wait_for_file(path: str):
    import os
    import time

    while not os.path.exists(path):
        time.sleep(0.05)


@dsl.pipeline(name="waiting")
def waiting(path: str):
    wait_for_file(path=path)


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("package") / "waiting.yaml"
    compiler.Compiler().compile(waiting, str(path))
    return str(path)


class Commands:
    """`trainyard` commands as processes that share one state folder."""

    def __init__(self, state_dir: Path, package: str) -> None:
        self.root = state_dir / "vertex"
        self._state_dir, self._package = state_dir, package

    def start(self, *words: str, log: str) -> Fork:
        preload = PRELOAD_KFP[1] if words[0] == "submit" else ""
        environ = {STATE_DIR_VARIABLE: str(self._state_dir), PRELOAD_VARIABLE: preload}
        return forks_with(*EVERYTHING).start(
            ["python", "-m", "pipelines.cli", *words],
            log_path=self._state_dir.with_name(f"{log}.log"),
            **environ,
        )

    def submit(self, run: str, *options: str) -> Fork:
        """Start a run that ends once `release` is called for it."""
        file = self._state_dir.with_name(f"{run}.end")
        words = ("submit", self._package, "--name", run, "--set", f"path={file}", *options)
        return self.start(*words, log=run)

    def release(self, run: str) -> None:
        self._state_dir.with_name(f"{run}.end").touch()

    def log(self, name: str) -> str:
        return self._state_dir.with_name(f"{name}.log").read_text()

    def state(self, run: str) -> str:
        """Return the state of a run, "" if it does not exist."""
        try:
            url = json.loads((self.root / "server.json").read_text())["url"]
        except (FileNotFoundError, ValueError):
            return ""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(EMULATOR_VARIABLE, url.removeprefix("http://"))
            patch.setenv(TOKEN_VARIABLE, client.token_of(self.root))
            api = connect(LOCAL_PROJECT, DEFAULT_LOCATION)
        runs = {job["name"].rpartition("/")[2]: job for job in api.list_resources("pipelineJobs")}
        return runs[run]["state"].removeprefix("PIPELINE_STATE_") if run in runs else ""

    def wait_until_running(self, run: str) -> int:
        """Wait until the run is executing; return the service's pid."""
        wait_until(
            lambda: self.state(run) == "RUNNING", f"{run} running", timeout_seconds=WAIT_SECONDS
        )
        return service_pid(self.root)


def has_open(pid: int, path: Path) -> bool:
    return str(path) in [file.path for file in psutil.Process(pid).open_files()]


@pytest.fixture
def commands(tmp_path, package, monkeypatch):
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    found = Commands(tmp_path / "state", package)
    yield found
    stop_service(found.root)


def test_service_continues_until_its_last_user_has_ended(commands):
    first = commands.submit("first", "--wait")
    pid = commands.wait_until_running("first")
    second, last = (commands.submit(run, "--wait") for run in ("second", "last"))
    commands.wait_until_running("second")
    commands.wait_until_running("last")

    commands.release("first")
    assert first.wait(WAIT_SECONDS) == 0, commands.log("first")
    assert service_pid(commands.root) == pid, "its starter has ended"
    second.kill()
    second.wait(WAIT_SECONDS)
    assert service_pid(commands.root) == pid, "another user was killed"
    commands.release("second")
    commands.release("last")

    assert last.wait(WAIT_SECONDS) == 0, commands.log("last")
    assert service_pid(commands.root) is None, "the last user returned before the service had ended"


def test_concurrent_commands_start_one_service(commands):
    commands.root.mkdir(mode=0o700, parents=True)
    commands.root.parent.chmod(0o700)
    for number in range(NUM_ROUNDS):
        logs = [f"list-{number}-{one}" for one in range(NUM_FIRST_COMMANDS)]
        users = [commands.start("models", "list", log=log) for log in logs]

        codes = [user.wait(WAIT_SECONDS) for user in users]

        assert codes == [0] * NUM_FIRST_COMMANDS, "".join(map(commands.log, logs))
        assert service_pid(commands.root) is None
    assert stat.S_IMODE(commands.root.parent.stat().st_mode) == 0o700


def test_any_user_can_keep_the_service(commands):
    first = commands.submit("first", "--wait")
    pid = commands.wait_until_running("first")
    left = commands.submit("left")
    assert left.wait(WAIT_SECONDS) == 0, commands.log("left")

    commands.release("first")
    assert first.wait(WAIT_SECONDS) == 0, commands.log("first")

    commands.release("left")
    wait_until(
        lambda: commands.state("left") == "SUCCEEDED",
        "the run that was left",
        timeout_seconds=WAIT_SECONDS,
    )
    assert service_pid(commands.root) == pid


def test_command_waits_for_a_stopping_service(commands):
    commands.root.mkdir(parents=True)
    with (commands.root / USERS_FILE).open("a") as ending:
        fcntl.flock(ending, fcntl.LOCK_EX)  # as the service does until its process ends
        user = commands.start("models", "list", log="list")
        wait_until(
            lambda: has_open(user.pid, commands.root / USERS_FILE),
            "the command's look",
            timeout_seconds=WAIT_SECONDS,
        )
        assert not (commands.root / START_FILE).exists()

    assert user.wait(WAIT_SECONDS) == 0, commands.log("list")


def test_nested_user_is_not_the_last_user(commands, monkeypatch):
    monkeypatch.setenv(PRELOAD_VARIABLE, "")
    with local_service(commands.root) as outer:
        pid = service_pid(commands.root)
        assert os.environ["STORAGE_EMULATOR_HOST"].startswith(
            "http://127.0.0.1:"
        )  # of gs://BUCKET here
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(EMULATOR_VARIABLE)
            with local_service(commands.root) as inner:
                assert inner.url == outer.url
        assert service_pid(commands.root) == pid
    assert service_pid(commands.root) is None


@pytest.mark.fast
def test_both_sides_read_the_same_variable():
    assert client.EMULATOR_VARIABLE == EMULATOR_VARIABLE
    assert client.TOKEN_VARIABLE == TOKEN_VARIABLE
    assert buckets.VARIABLE == paths.LOCAL_BUCKETS


@pytest.mark.fast
def test_a_missing_vertex_local_is_named_with_its_source(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vertex_local", None)
    with (
        pytest.raises(
            LocalServiceError, match=f"not installed; install {SOURCE} with .*--on vertex"
        ),
        local_service(tmp_path),
    ):
        pass


@pytest.mark.fast
def test_the_console_preloads_as_a_run_does():
    assert f"PRELOAD := {PRELOAD}\n" in Path("Makefile").read_text()
