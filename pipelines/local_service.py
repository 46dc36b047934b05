"""Starts this machine's Vertex AI service when none is running, and ends what it started."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import requests

from components.vertex_api import EMULATOR_VARIABLE, VertexApi, VertexError

# What takes long to import in a run's steps, replicas and prediction server; another list, or none,
# is taken from the environment.
PRELOAD = "kfp.local,kfp.dsl.executor_main,tensorflow"
PRELOAD_VARIABLE = "TRAINYARD_PRELOAD"
SERVE = [sys.executable, "-m", "vertex_local.cli", "serve", "--tied-to-stdin"]
START_TIMEOUT_SECONDS = 30
STOP_TIMEOUT_SECONDS = 60


class ServiceError(Exception):
    """The service did not start or end; the message says what it wrote."""


@contextlib.contextmanager
def local_service(root: Path, *, mounts: Sequence[Path] | None = None) -> Iterator["LocalService"]:
    """The service over `root`: the one that runs already, or one for as long as the block lasts.

    With `mounts` it is one that runs containers, which see these folders.

    Every client made inside the block finds it by `VERTEX_EMULATOR_HOST`. A service that this
    started is ended at the block's end, unless `keep()` was called.
    """
    with contextlib.ExitStack() as stack:
        service = LocalService(root, mounts=mounts)
        if not service.find():
            stack.callback(service.stop)
            service.start()
        stack.enter_context(_environment(EMULATOR_VARIABLE, service.host))
        yield service


class LocalService:
    """One `vertex-local serve` process over a root folder."""

    def __init__(self, root: Path, *, mounts: Sequence[Path] | None = None) -> None:
        self.root = root
        self._mounts = mounts
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._is_kept = False

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return self.url.removeprefix("http://")

    @property
    def is_ours(self) -> bool:
        """Whether this process started it."""
        return self._process is not None

    def find(self) -> bool:
        """Looks for a running service over this root: `self.url` is set if one answers."""
        host = os.environ.get(EMULATOR_VARIABLE)
        url = f"http://{host}" if host else self._recorded_url()
        if not url or not _answers(url):
            if host:
                raise ServiceError(
                    f"{EMULATOR_VARIABLE} names {host}, but nothing answers there; start it with "
                    "`vertex-local serve`, or unset the variable"
                )
            return False
        self._check_mode(url)
        self.url = url
        return True

    def start(self) -> None:
        """Starts the service and waits until it answers."""
        self.root.mkdir(parents=True, exist_ok=True)
        log_path = self.root / "service.log"
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*SERVE, "--root", str(self.root), *self._mode()],
                stdin=subprocess.PIPE,  # ends with this process, and the service with it
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C of the terminal is ours to handle, not its
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not (self._recorded_pid() == self._process.pid and self.find()):
            if self._process.poll() is not None:
                raise ServiceError(f"the service did not start: {log_path.read_text().strip()}")
            if time.monotonic() > deadline:
                self.stop()
                raise ServiceError(
                    f"the service did not answer within {START_TIMEOUT_SECONDS} s; see {log_path}"
                )
            time.sleep(0.05)

    def keep(self) -> None:
        """Leaves the service running when the block ends."""
        self._is_kept = True
        if self._process and self._process.stdin:
            self._process.stdin.write(b"stay\n")
            self._process.stdin.flush()

    def stop(self) -> None:
        """Ends the service, if this started it and nobody keeps it."""
        if self._process is None or self._is_kept:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # its children end with it
            self._process.wait()

    def _mode(self) -> list[str]:
        if self._mounts is None:
            return _preload()
        return ["--containers", *(f"--mount={folder}" for folder in self._mounts)]

    def _check_mode(self, url: str) -> None:
        if self._mounts is None:
            return
        record = self._recorded()
        mounts = record.get("mounts") if record.get("url") == url else None
        if mounts is None:
            problem = "runs processes"
        else:
            unseen = [d for d in self._mounts if not any(d.is_relative_to(one) for one in mounts)]
            if not unseen:
                return
            problem = f"runs containers that do not see {unseen[0]}"
        raise ServiceError(
            f"--containers: the service at {url} {problem}; end it first "
            f"(vertex-local stop --root {self.root}), or leave --containers out"
        )

    def _recorded(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.root / "server.json").read_text())
        except (OSError, ValueError):
            return {}
        return record

    def _recorded_url(self) -> str:
        return str(self._recorded().get("url", ""))

    def _recorded_pid(self) -> object:
        return self._recorded().get("pid")


def _preload() -> list[str]:
    modules = os.environ.get(PRELOAD_VARIABLE, PRELOAD)
    return ["--preload", modules] if modules else []


def _answers(url: str) -> bool:
    with requests.Session() as session:
        session.trust_env = False
        api = VertexApi(
            base_url=url,
            logging_url=url,
            parent="projects/local/locations/-",
            session=session,
            timeout_seconds=5,
        )
        try:
            api.get(f"{api.parent}/models")
        except VertexError:
            return False
        return True


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
