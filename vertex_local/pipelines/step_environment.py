"""Gives a step the environment that its packages need: from the store, or built first."""

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
# Without such a line: what git says, the headline of a command that failed, or pip's exception.
OTHER_ERROR = re.compile(r"^\s*(?:fatal: |\u00d7 |(?=\w+Error: ))(.+)", re.MULTILINE)
IMAGE_PYTHON = re.compile(r"(?:^|/)python:(\d+\.\d+)")
MAX_ERRORS = 3


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Where a task gets its environment from, and how it is told what is done for it.

    Attributes:
        task: How messages call it.
        image: The image of the step, which may name another Python.
        log_path: Its log.
        temp_dir: A folder for temporary files, which does not exist yet.
        must_stop: Whether to give up, since the run was cancelled.
        timeout_seconds: How long a build may take, and waiting for that of another step.
    """

    task: str
    image: str
    log_path: Path
    temp_dir: Path
    must_stop: Callable[[], bool]
    timeout_seconds: float = BUILD_TIMEOUT_SECONDS

    @contextmanager
    def environment(self, step: Step) -> Iterator[Path]:
        """Yield the prefix of the environment that a step runs in: the service's own if it can.

        Raises:
            TaskError: it cannot be built; the message names the package.
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
                text = f"the environment of {self.task} cannot be kept: {error}"
                raise TaskError(text) from error
            if was_built:
                self._say_removed(store.prune())
            else:
                self._say(f"{self.task} runs in an environment that was kept: {_listed(step)}")
            yield prefix

    def _build(self, folder: Path, step: Step) -> None:
        self._say(f"building the environment of {self.task}: {_listed(step)}")
        begin = self.log_path.stat().st_size
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
            raise self._late(step)
        raise TaskError(self._failure(step, code, begin))

    def _wait(self, step: Step) -> Callable[[], None]:
        """Return what is called while another step builds the same environment."""
        deadline = 0.0

        def wait() -> None:
            nonlocal deadline
            if not deadline:
                deadline = time.monotonic() + self.timeout_seconds
                self._say(f"{self.task} waits for its environment, which another step is building")
            if self.must_stop():
                raise TaskError("the run was cancelled")
            if time.monotonic() > deadline:
                raise self._late(step)

        return wait

    def _late(self, step: Step) -> TaskError:
        return TaskError(
            f"the environment of {self.task} was not built within {self.timeout_seconds:.0f} s: "
            f"pip was installing {_listed(step)}"
        )

    def _failure(self, step: Step, code: int, begin: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(begin)
            text = log.read().decode(errors="replace")
        said = PIP_ERROR.findall(text) or list(dict.fromkeys(OTHER_ERROR.findall(text)))
        reason = " ".join(said[-MAX_ERRORS:]) or f"exit code {code}; its log tells more"
        return (
            f"pip cannot install what {self.task} asks for, {_listed(step)}, and no earlier step "
            f"has left an environment with that. pip: {reason}{self._python_hint()}\n"
            "Reach a package index once (PIP_INDEX_URL, PIP_FIND_LINKS and pip.conf are followed), "
            "then it is cached; or change packages_to_install of the component."
        )

    def _python_hint(self) -> str:
        found = IMAGE_PYTHON.search(self.image)
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        if not found or found[1] == ours:
            return ""
        return f"\nIts image has Python {found[1]}; without containers it runs with {ours}."

    def _say_removed(self, removed: list[Environment]) -> None:
        for one in removed:
            listed = ", ".join(one.requirements)
            self._say(f"removed the environment that was unused for longest: {listed}")

    def _say(self, line: str) -> None:
        with self.log_path.open("a") as log:
            log.write(f"{line}\n")
        sys.stdout.write(f"{line}\n")


def _listed(step: Step) -> str:
    return ", ".join(step.requirements)
