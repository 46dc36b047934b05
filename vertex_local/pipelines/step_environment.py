"""Python environments of steps with packages: taken from the store, or built first."""

import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vertex_local.pipelines import step_process
from vertex_local.pipelines.run_state import TaskError
from vertex_local.processes.environments import store
from vertex_local.processes.environments.commands import Step

BUILD_TIMEOUT_SECONDS = 1800.0
BUILDS: dict[Path, threading.Lock] = {}  # of this process, by prefix
UV_ERROR = re.compile(r"^\s*(?:error: |\u00d7 ).*", re.MULTILINE | re.DOTALL)
UV_FRAME = re.compile(r"^[\s\u2502\u251c\u2500\u2570\u25b6]+", re.MULTILINE)
IMAGE_PYTHON = re.compile(r"(?:^|/)python:(\d+\.\d+)")
MAX_ERROR_CHARACTERS = 2000


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Source of a task's environment; `temp_dir` is a folder that does not exist yet."""

    task: str
    image: str
    log_path: Path
    temp_dir: Path
    must_stop: Callable[[], bool]
    timeout_seconds: float = BUILD_TIMEOUT_SECONDS

    def environment(self, step: Step) -> Path:
        """Return the prefix of a step's environment: the service's own if it needs no packages.

        Raises:
            TaskError: It cannot be built; the message names the package.
        """
        if not step.needs_environment:
            return Path(sys.prefix)
        prefix, listed = store.prefix_of(step.installs), ", ".join(step.requirements)
        try:
            with BUILDS.setdefault(prefix, threading.Lock()):  # else each parallel step builds it
                if store.is_complete(prefix):
                    self._log(f"{self.task} uses a stored environment: {listed}")
                    return prefix
                self._log(f"building the environment of {self.task}: {listed}")
                with store.building(prefix) as draft:
                    self._build(draft, step, listed)
        except OSError as error:
            text = f"the environment of {self.task} cannot be stored: {error}"
            raise TaskError(text) from error
        return prefix

    def _build(self, draft: Path, step: Step, listed: str) -> None:
        began = time.monotonic()
        store.create(draft)
        for command in store.commands(draft, step.installs):
            log_start = self.log_path.stat().st_size
            code = step_process.run(
                command,
                env=store.variables(),
                log_path=self.log_path,
                temp_dir=self.temp_dir,
                must_stop=lambda: self.must_stop() or self._is_late(began),
            )
            if code and self.must_stop():
                raise TaskError("the run was cancelled")
            if code and self._is_late(began):
                raise TaskError(
                    f"the environment of {self.task} was not built within "
                    f"{self.timeout_seconds:.0f} s: uv was installing {listed}"
                )
            if code:
                raise TaskError(self._failure(listed, code, log_start))
        self._log(f"built in {time.monotonic() - began:.1f} s")

    def _is_late(self, began: float) -> bool:
        return time.monotonic() - began > self.timeout_seconds

    def _failure(self, listed: str, code: int, log_start: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(log_start)
            error = UV_ERROR.search(log.read().decode(errors="replace"))
        reason = UV_FRAME.sub("", error[0]).strip()[:MAX_ERROR_CHARACTERS] if error else ""
        return (
            f"uv cannot install the packages of {self.task}, {listed}, and no stored environment "
            f"has them. uv: {reason or f'exit code {code}'}{self._python_hint()}\n"
            "Give uv access to a package index once (UV_INDEX, PIP_INDEX_URL, PIP_FIND_LINKS and "
            "pip.conf are used); later steps use the stored environment. Or change "
            "packages_to_install of the component."
        )

    def _python_hint(self) -> str:
        version = IMAGE_PYTHON.search(self.image)
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if not version or version[1] == own:
            return ""
        return f"\nIts image has Python {version[1]}; without containers it runs with {own}."

    def _log(self, line: str) -> None:
        with self.log_path.open("a") as log:
            log.write(f"{line}\n")
        sys.stdout.write(f"{line}\n")
