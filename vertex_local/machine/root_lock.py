"""Lock on a root folder, which one service holds at a time, and the address of that service."""

import fcntl
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from vertex_local import Json
from vertex_local.client import ADDRESS_FILE, SERVICE_FILE, TOKEN_FILE, announced, token_of
from vertex_local.errors import StartError
from vertex_local.machine.files import write_json

ATTEMPTS = 10
ATTEMPT_SECONDS = 0.02


class RootLock:
    """An exclusive lock on ROOT/lock, held until the process ends; the file names its pid."""

    def __init__(self, root: Path) -> None:
        self._file: IO[str] = open(root / SERVICE_FILE, "a+", encoding="utf-8")  # noqa: SIM115
        if not self._acquire():
            self._file.close()
            raise StartError(_taken_message(root))
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def _acquire(self) -> bool:
        """Try for 0.2 s: `client.service_pid` also locks the file, for a moment."""
        for _ in range(ATTEMPTS):
            with suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(ATTEMPT_SECONDS)
        return False


def announce(root: Path, record: Json) -> None:
    """Write ROOT/server.json atomically: where this process can be reached, and how it started."""
    write_json(root / ADDRESS_FILE, {"pid": os.getpid(), **record})


def make_token(root: Path) -> str:
    """Return the secret in ROOT/token, which only this user can read; create it if missing."""
    if not (token := token_of(root)):
        token = secrets.token_urlsafe(32)
        draft = root / f"{TOKEN_FILE}.tmp"
        draft.touch(mode=0o600)
        draft.write_text(f"{token}\n")
        draft.replace(root / TOKEN_FILE)
    return token


def withdraw(root: Path) -> None:
    """Remove ROOT/server.json."""
    (root / ADDRESS_FILE).unlink(missing_ok=True)


def _taken_message(root: Path) -> str:
    url = announced(root).get("url")
    state = f"at {url}" if url else "and is starting or stopping"
    return (
        f"A service already runs on {root} {state}. Use it, stop it with "
        f"`vertex-local stop --root {root}`, or choose another --root."
    )
