"""Processes that run a user's code, as forks."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pipelines.projects.user_code import UserProcess
from tests.support.processes.everything import EVERYTHING
from vertex_local.tests.support.forks import forks_with


@contextlib.contextmanager
def forked(command: Sequence[str], **environment: str) -> Iterator[UserProcess]:
    """Run a module with arguments during the block, as `running` does in a new process."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "log")
        words = ["python", "-m", *command]
        fork = forks_with(*EVERYTHING).start(words, log_path=path, TMPDIR=folder, **environment)
        with path.open("rb") as log:
            try:
                yield UserProcess(fork, log)
            finally:
                fork.kill()
                fork.wait(20)
