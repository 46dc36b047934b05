"""Processes that run a user's code: they have a log, and end with the block that starts them."""

import contextlib
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from trainer.runtime.processes import ending_with_parent

STACKS_SECONDS = 5.0  # until a process that is asked for its stacks has written them
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
MAX_LINES = 5


@dataclass(frozen=True)
class UserProcess:
    """A process that runs a user's code, and its log."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def next_line(self, timeout_seconds: float) -> bytes:
        """Return the next line of its output, empty at the end.

        Raises:
            TimeoutError: there was none in time.
        """
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], timeout_seconds)[0]:
            raise TimeoutError
        return self.process.stdout.readline()

    def last_lines(self) -> str:
        """Return the end of its log."""
        return "\n".join(self._logged().splitlines()[-MAX_LINES:])

    def current_line(self, folder: str) -> str:
        """Return the line that it executes, as FILE:LINE: FUNCTION; preferably one in `folder`.

        Its `main` has registered faulthandler for SIGUSR1; before that, the text is empty.
        """
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + STACKS_SECONDS
        while not FRAME.search(self._logged()) and time.monotonic() < deadline:
            time.sleep(0.05)
        frames: list[tuple[str, str, str]] = FRAME.findall(self._logged())
        frames.sort(key=lambda frame: not frame[0].startswith(folder))
        return "{}:{}: {}".format(*frames[0]) if frames else ""

    def _logged(self) -> str:
        # Without `seek`, which would move where the process writes: both share the position.
        descriptor = self.log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


@contextlib.contextmanager
def running(command: Sequence[str], **environment: str) -> Iterator[UserProcess]:
    """Run a module with arguments during the block; then it leaves no process and no file."""
    inherited: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if name != "TF_CONFIG"
    }
    with (
        tempfile.TemporaryDirectory(prefix="trainyard-check-") as folder,
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            ending_with_parent(*command),
            bufsize=0,  # for `select`
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**inherited, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": folder, **environment},
            start_new_session=True,  # a process group, to kill its children with it
        ) as process,
    ):
        try:
            yield UserProcess(process, log)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
