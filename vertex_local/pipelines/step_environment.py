"""Python environments of steps with packages: taken from the store, or built first."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vertex_local.pipelines import step_process
from vertex_local.pipelines.run_state import TaskError
from vertex_local.processes.environments.commands import Step
from vertex_local.processes.environments.store import Environment, Store, StoreError, key_of

BUILD_TIMEOUT_SECONDS = 1800.0
BUILDER = "vertex_local.processes.environments.builder"
PIP_ERROR = re.compile(r"^ERROR: (?!Exception:)(.+)", re.MULTILINE)
# If there is no such line: git's message, the headline of a failed command, pip's exception.
OTHER_ERROR = re.compile(r"^\s*(?:fatal: |\u00d7 |(?=\w+Error: ))(.+)", re.MULTILINE)
IMAGE_PYTHON = re.compile(r"(?:^|/)python:(\d+\.\d+)")
MAX_ERRORS = 3


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Source of a task's environment.

    Attributes:
        task: Name of the task in messages.
        image: Image of the step, which may have another version of Python.
        log_path: Log of the task.
        temp_dir: A folder for temporary files, which does not exist yet.
        must_stop: Returns whether the run was cancelled.
        timeout_seconds: For building it, or waiting until another step has built it.
    """

    task: str
    image: str
    log_path: Path
    temp_dir: Path
    must_stop: Callable[[], bool]
    timeout_seconds: float = BUILD_TIMEOUT_SECONDS

    @contextmanager
    def environment(self, step: Step) -> Iterator[Path]:
        """Yield the prefix of a step's environment: the service's own if it needs no packages.

        Raises:
            TaskError: It cannot be built; the message names the package.
        """
        if not step.needs_environment:
            yield Path(sys.prefix)
            return
        was_built = False

        def build(folder: Path) -> None:
            nonlocal was_built
            was_built = True
            self._build(folder, step)

        with ExitStack() as stack:
            try:
                store = Store.of_user()
                using = store.using(key_of(step.installs), build=build, wait=self._wait(step))
                prefix = stack.enter_context(using)
            except (OSError, StoreError) as error:
                text = f"the environment of {self.task} cannot be stored: {error}"
                raise TaskError(text) from error
            if was_built:
                self._log_removed(store.prune())
            else:
                self._log(f"{self.task} uses a stored environment: {_listed(step)}")
            yield prefix

    def _build(self, folder: Path, step: Step) -> None:
        self._log(f"building the environment of {self.task}: {_listed(step)}")
        log_start = self.log_path.stat().st_size
        deadline = time.monotonic() + self.timeout_seconds
        code = step_process.run(
            ["python", "-m", BUILDER, str(folder), *map(json.dumps, step.installs)],
            env={},
            log_path=self.log_path,
            temp_dir=self.temp_dir,
            must_stop=lambda: self.must_stop() or time.monotonic() > deadline,
        )
        if code == 0:
            return
        if self.must_stop():
            raise TaskError("the run was cancelled")
        if time.monotonic() > deadline:
            raise self._timeout_error(step)
        raise TaskError(self._failure(step, code, log_start))

    def _wait(self, step: Step) -> Callable[[], None]:
        """Return a function to call while another step builds the same environment."""
        deadline = 0.0

        def wait() -> None:
            nonlocal deadline
            if not deadline:
                deadline = time.monotonic() + self.timeout_seconds
                self._log(f"{self.task} waits: another step is building its environment")
            if self.must_stop():
                raise TaskError("the run was cancelled")
            if time.monotonic() > deadline:
                raise self._timeout_error(step)

        return wait

    def _timeout_error(self, step: Step) -> TaskError:
        return TaskError(
            f"the environment of {self.task} was not built within {self.timeout_seconds:.0f} s: "
            f"pip was installing {_listed(step)}"
        )

    def _failure(self, step: Step, code: int, log_start: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(log_start)
            text = log.read().decode(errors="replace")
        errors = PIP_ERROR.findall(text) or list(dict.fromkeys(OTHER_ERROR.findall(text)))
        reason = " ".join(errors[-MAX_ERRORS:]) or f"exit code {code}; see the step's log"
        return (
            f"pip cannot install the packages of {self.task}, {_listed(step)}, and no stored "
            f"environment has them. pip: {reason}{self._python_hint()}\n"
            "Give pip access to a package index once (PIP_INDEX_URL, PIP_FIND_LINKS and pip.conf "
            "are used); later steps use the stored environment. Or change packages_to_install of "
            "the component."
        )

    def _python_hint(self) -> str:
        found = IMAGE_PYTHON.search(self.image)
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        if not found or found[1] == own:
            return ""
        return f"\nIts image has Python {found[1]}; without containers it runs with {own}."

    def _log_removed(self, removed: list[Environment]) -> None:
        for one in removed:
            listed = ", ".join(one.requirements)
            self._log(f"removed the least recently used environment: {listed}")

    def _log(self, line: str) -> None:
        with self.log_path.open("a") as log:
            log.write(f"{line}\n")
        sys.stdout.write(f"{line}\n")


def _listed(step: Step) -> str:
    return ", ".join(step.requirements)
