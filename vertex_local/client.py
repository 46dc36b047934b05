"""Start, sharing and stop of a service, for programs that use it; needs the standard library only.

A service has a root folder, whose files both sides know:
ROOT/lock: held by the service; contains its pid.
ROOT/server.json: its address, once it accepts requests.
ROOT/token: a secret that requests must have where the kernel does not tell whose they are.
ROOT/users: each program that uses the service holds a shared lock, which the kernel releases even
if the program is killed. The last program, or the service itself, takes it exclusively and stops
the service; new programs wait for that.
ROOT/start.lock: held while a program finds or starts the service.
ROOT/ends-when-unused: exists while the service is to stop with its last user.
"""

import contextlib
import fcntl
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from vertex_local import Json

# `HOST:PORT` of the service; programs that have it use that service and start none.
EMULATOR_VARIABLE = "VERTEX_EMULATOR_HOST"
TOKEN_VARIABLE = "VERTEX_EMULATOR_TOKEN"  # of that service, if it requires one
SERVICE_FILE = "lock"
ADDRESS_FILE = "server.json"
TOKEN_FILE = "token"
USERS_FILE = "users"
START_FILE = "start.lock"
ENDS_WHEN_UNUSED_FILE = "ends-when-unused"
SERVE = (sys.executable, "-m", "vertex_local.cli", "serve")
PROBE_PATH = "/v1/projects/local/locations/-/models?pageSize=1"
# More than one, because requests to a busy service may fail.
PROBES_OF_NAMED = 10
LOCK_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.02
REAP_TIMEOUT_SECONDS = 5
RESPONSE_TIMEOUT_SECONDS = 5
START_TIMEOUT_SECONDS = 30
STOP_TIMEOUT_SECONDS = 60.0


class ServiceError(Exception):
    """The service did not start, does not respond, or runs in another mode."""


class LocalService:
    """The `vertex-local serve` process on a root folder, from the view of one of its users.

    `options` are passed to `vertex-local serve`, for a service that this user starts, with the
    interpreter `python` instead of this one. With `mounts` it runs containers that have access to
    these folders.
    """

    def __init__(
        self,
        root: Path,
        *,
        options: Sequence[str] = (),
        mounts: Sequence[Path] | None = None,
        python: str = "",
    ) -> None:
        self.root = root
        self._command = [
            python or SERVE[0],
            *SERVE[1:],
            "--while-used",
            "--root",
            str(root.absolute()),
        ]
        self.url = ""
        self.token = ""
        self._mounts = mounts
        containers = ["--containers", *(f"--mount={folder}" for folder in mounts or ())]
        self.options = [*options] if mounts is None else [*options, *containers]
        self._lease: Lease | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """Return `127.0.0.1:PORT`."""
        return self.url.removeprefix("http://")

    @property
    def notes(self) -> list[str]:
        """Return the problems of the service's start, if this user has started it."""
        notes: list[str] = announced(self.root).get("notes", []) if self._process else []
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
        self._lease = Lease(self.root)
        waits_for = f"another program to start the service on {self.root}"
        with _locked(self.root / START_FILE, fcntl.LOCK_EX, waits_for=waits_for):
            self._find_or_start()

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
            (self.root / ENDS_WHEN_UNUSED_FILE).unlink(missing_ok=True)

    def _use_named(self, host: str) -> None:
        self.url, self.token = f"http://{host}", os.environ.get(TOKEN_VARIABLE, "")
        if not any(_is_responding(self.url, self.token) for _ in range(PROBES_OF_NAMED)):
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
                    nothing = f"it wrote nothing to {self._log}; is the disk full?"
                    raise ServiceError(
                        f"the service did not start: {self._log.read_text().strip() or nothing}"
                    )
            if time.monotonic() > deadline:
                if self._process:
                    self._process.kill()
                raise ServiceError(
                    f"the service on {self.root} did not respond within {START_TIMEOUT_SECONDS} s; "
                    f"see {self._log}, or stop it: vertex-local stop --root {self.root}"
                )
            time.sleep(POLL_SECONDS)
        self._check_mode()

    def _find(self) -> bool:
        record = announced(self.root)
        if not record or record["pid"] != service_pid(self.root):  # left by a killed service
            return False
        self.url, self.token = record["url"], token_of(self.root)
        return _is_responding(self.url, self.token)

    @property
    def _log(self) -> Path:
        return self.root / "service.log"

    def _start(self) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._command, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # The current folder may contain a json.py or a folder named kfp, which would hide
                # the modules of that name in the service and all its processes.
                cwd=self.root,
                start_new_session=True,  # Ctrl-C at the terminal must not reach it
            )

    def _check_mode(self) -> None:
        if self._mounts is None:
            return
        record = announced(self.root)
        mounts = record.get("mounts") if record.get("url") == self.url else None
        if mounts is None:
            problem = "runs processes"
        else:
            missing = [
                folder
                for folder in self._mounts
                if not any(folder.is_relative_to(mount) for mount in mounts)
            ]
            if not missing:
                return
            problem = f"runs containers without access to {missing[0]}"
        raise ServiceError(
            f"--containers: the service at {self.url} {problem}; stop it first "
            f"(vertex-local stop --root {self.root}), or omit --containers"
        )


class Lease:
    """Use of the service on a root folder, until `close` or the end of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        waits_for = f"the service on {root} to stop; vertex-local stop --root {root} stops it"
        self._file = _locked(root / USERS_FILE, fcntl.LOCK_SH, waits_for=waits_for)

    def close(self) -> None:
        """Release the lock; as the last user, stop the service unless it is to be kept."""
        with self._file:
            if self._is_last() and (self._root / ENDS_WHEN_UNUSED_FILE).exists():
                stop_service(self._root)

    def _is_last(self) -> bool:
        """Return whether this is the last user; if so, no other can join until the file closes.

        Of several concurrent calls one gets the lock: flock(2) releases the shared lock first.
        """
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def announced(root: Path) -> Json:
    """Return the content of ROOT/server.json, or {} if there is none."""
    try:
        content: Json = json.loads((root / ADDRESS_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return content


def token_of(root: Path) -> str:
    """Return the token that a service on `root` may require, "" if there is none."""
    try:
        return (root / TOKEN_FILE).read_text().strip()
    except OSError:
        return ""


def authorization(token: str) -> dict[str, str]:
    """Return the field of a request's head that has the token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def service_pid(root: Path) -> int | None:
    """Return the pid of the service on `root`, 0 while it starts, None if there is none."""
    try:
        with (root / SERVICE_FILE).open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdigit() else 0
    except FileNotFoundError:
        pass
    return None


def stop_service(
    root: Path,
    *,
    timeout_seconds: float = STOP_TIMEOUT_SECONDS,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGKILL),
) -> bool:
    """Stop the service on `root` by signals, each with a timeout; return whether it has ended.

    Its children end with it.
    """
    pid = service_pid(root)
    if not pid:
        return True
    for number in signals:
        deadline = time.monotonic() + timeout_seconds
        if service_pid(root) == pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while service_pid(root) == pid and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    return service_pid(root) != pid


def _is_responding(url: str, token: str) -> bool:
    """Return whether the service responds to a request.

    Raises:
        ServiceError: it serves another user, or requires another token.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, never a proxy
    try:
        request = urllib.request.Request(url + PROBE_PATH, headers=authorization(token))
        with opener.open(request, timeout=RESPONSE_TIMEOUT_SECONDS) as response:
            response.read()
    except urllib.error.HTTPError as error:
        with error:
            body = error.read()
        if error.code == http.HTTPStatus.FORBIDDEN:
            message = json.loads(body)["error"]["message"]
            raise ServiceError(f"the service at {url} refuses this user: {message}") from None
        return False
    except (OSError, http.client.HTTPException):
        return False
    return True


def _locked(path: Path, operation: int, *, waits_for: str) -> IO[str]:
    """Open and lock a file, which child processes do not inherit, until it is closed."""
    file = path.open("a", encoding="utf-8")
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, operation | fcntl.LOCK_NB)
                return file
            if time.monotonic() > deadline:
                raise ServiceError(f"waited {LOCK_TIMEOUT_SECONDS:.0f} s for {waits_for}")
            time.sleep(POLL_SECONDS)
    except BaseException:
        file.close()
        raise
