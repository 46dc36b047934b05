"""Connection to this machine's service, started if it does not run."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import requests

from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi
from components.shared.vertex.errors import VertexError
from components.shared.vertex.retries import MAX_ATTEMPTS
from pipelines.errors import ServiceError
from pipelines.places.lease import Lease, LeaseError, keep_service, service_pid, starting
from trainer import Json
from trainer.references import STATE_DIR_VARIABLE

# Slow imports: of the runner and light steps, then of replicas and prediction servers. The
# environment may have other lists.
PRELOAD = "kfp.local,kfp.dsl.executor_main tensorflow"
PRELOAD_VARIABLE = "TRAINYARD_PRELOAD"
SERVE = [sys.executable, "-m", "vertex_local.cli", "serve", "--while-used"]
START_TIMEOUT_SECONDS = 30
RESPONSE_TIMEOUT_SECONDS = 5
REAP_TIMEOUT_SECONDS = 5


@contextlib.contextmanager
def local_service(root: Path, *, mounts: Sequence[Path] | None = None) -> Iterator["LocalService"]:
    """Use the service on `root` during the block; start it if it does not run.

    With `mounts` it runs containers that have access to these folders.

    `VERTEX_EMULATOR_HOST` directs the clients created inside the block to the service. A service
    started by a command stops with its last user, unless one of the users called `keep()`.
    """
    with contextlib.ExitStack() as stack:
        service = LocalService(root, mounts=mounts)
        stack.callback(service.leave)
        # By it the service's processes know the code of own runs: `is_own_code`.
        stack.enter_context(_environment(STATE_DIR_VARIABLE, str(root.absolute().parent)))
        service.join()
        stack.enter_context(_environment(EMULATOR_VARIABLE, service.host))
        yield service


class LocalService:
    """The `vertex-local serve` process on a root folder, from the view of one of its users."""

    def __init__(self, root: Path, *, mounts: Sequence[Path] | None = None) -> None:
        self.root = root
        self._mounts = mounts
        self.url = ""
        self._lease: Lease | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """Return `127.0.0.1:PORT`."""
        return self.url.removeprefix("http://")

    @property
    def notes(self) -> list[str]:
        """Return the problems of the service's start, if this command has started it."""
        notes: list[str] = self._recorded().get("notes", []) if self._process else []
        return notes

    def join(self) -> None:
        """Become a user of the service that `VERTEX_EMULATOR_HOST` names, or of that on the root.

        Raises:
            ServiceError: it does not respond, could not be started, or runs in another mode.
        """
        if host := os.environ.get(EMULATOR_VARIABLE):
            self._use_named(host)
            return
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._lease = Lease(self.root)
            with starting(self.root):
                self._find_or_start()
        except LeaseError as error:
            raise ServiceError(str(error)) from error

    def leave(self) -> None:
        """Stop using the service; the last user stops it, unless it is to be kept."""
        if self._lease:
            self._lease.close()
        if self._process and service_pid(self.root) != self._process.pid:
            self._process.kill()  # no longer running, unless interrupted while starting
            self._process.wait(REAP_TIMEOUT_SECONDS)

    def keep(self) -> None:
        """Keep the service running after its last user."""
        if self._lease:
            keep_service(self.root)

    def _use_named(self, host: str) -> None:
        self.url = f"http://{host}"
        if not _is_responding(self.url):
            raise ServiceError(
                f"{EMULATOR_VARIABLE} is {host}, but no service responds there; start one with "
                "`vertex-local serve`, or unset the variable"
            )
        self._check_mode()

    def _find_or_start(self) -> None:
        """Wait for the service that runs, starts or stops on the root; start it if there is none.

        If another service was started by hand in the meantime, ours exits and that one is used.
        """
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._find():
            if service_pid(self.root) is None:
                if self._process is None:
                    self._start()
                elif self._process.poll() is not None:
                    raise ServiceError(
                        f"the service did not start: {self._log.read_text().strip()}"
                    )
            if time.monotonic() > deadline:
                if self._process:
                    self._process.kill()
                raise ServiceError(
                    f"the service on {self.root} did not respond within {START_TIMEOUT_SECONDS} s; "
                    f"see {self._log}, or stop it: vertex-local stop --root {self.root}"
                )
            time.sleep(0.05)
        self._check_mode()

    def _find(self) -> bool:
        record = self._recorded()
        if not record or record["pid"] != service_pid(self.root):  # left by a killed service
            return False
        self.url = record["url"]
        return _is_responding(self.url, max_attempts=1)  # the caller asks again, until its deadline

    @property
    def _log(self) -> Path:
        return self.root / "service.log"

    def _start(self) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*SERVE, "--root", str(self.root.absolute()), *self._mode()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A user's folder may contain a json.py or a folder named components, which would
                # hide the modules of that name in the service and all its processes.
                cwd=self.root,
                start_new_session=True,  # Ctrl-C at the terminal must not reach it
            )

    def _mode(self) -> list[str]:
        if self._mounts is None:
            return preload_flags(os.environ.get(PRELOAD_VARIABLE, PRELOAD))
        return ["--containers", *(f"--mount={folder}" for folder in self._mounts)]

    def _check_mode(self) -> None:
        if self._mounts is None:
            return
        record = self._recorded()
        mounts = record.get("mounts") if record.get("url") == self.url else None
        if mounts is None:
            problem = "runs processes"
        else:
            missing = [d for d in self._mounts if not any(d.is_relative_to(one) for one in mounts)]
            if not missing:
                return
            problem = f"runs containers without access to {missing[0]}"
        raise ServiceError(
            f"--containers: the service at {self.url} {problem}; stop it first "
            f"(vertex-local stop --root {self.root}), or omit --containers"
        )

    def _recorded(self) -> Json:
        try:
            record: Json = json.loads((self.root / "server.json").read_text())
        except (OSError, ValueError):
            return {}
        return record


def preload_flags(stages: str = PRELOAD) -> list[str]:
    """Return the flags of `vertex-local serve` for lists of modules, divided by spaces."""
    return [word for modules in stages.split() for word in ("--preload", modules)]


def _is_responding(url: str, *, max_attempts: int = MAX_ATTEMPTS) -> bool:
    """Return whether the service responds to one of `max_attempts` requests.

    Raises:
        ServiceError: it serves another user.
    """
    with requests.Session() as session:
        session.trust_env = False
        api = VertexApi(
            base_url=url,
            logging_url=url,
            project="local",
            location="-",
            session=session,
            timeout_seconds=RESPONSE_TIMEOUT_SECONDS,
            max_attempts=max_attempts,
        )
        try:
            api.get(f"{api.parent}/models")
        except VertexError as error:
            if error.status == "PERMISSION_DENIED":
                raise ServiceError(
                    f"the service at {url} refuses this user: {error.message}"
                ) from error
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
