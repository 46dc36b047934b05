"""Carries out one task of a pipeline: a Python component or a GCPC operation."""

import re
import sys
from pathlib import Path
from typing import Any

from kfp.dsl import component_factory
from kfp.local import status, subprocess_task_handler

from vertex_local.machine.docker import HOST, Container
from vertex_local.machine.docker_engine import Engine
from vertex_local.machine.files import last_lines
from vertex_local.pipelines import step_process
from vertex_local.pipelines.gcpc import requests as gcpc_requests
from vertex_local.pipelines.gcpc.operator import Operator
from vertex_local.pipelines.gcpc.requests import GcpcError
from vertex_local.pipelines.run_state import PipelineRun, Task, TaskError
from vertex_local.pipelines.step_environment import Provider
from vertex_local.processes.environments.commands import Step
from vertex_local.processes.warm import WarmClient

SHELL_SIGNAL_BASE = 128
EXECUTOR_INPUT = re.compile(r'\A.*"outputFile": "[^"]*"\n *\}\n\}\n', re.DOTALL)
EXECUTOR_MODULE = re.compile(r"\bkfp\.(dsl|components)\.executor_main\b")  # the latter: kfp 2.0
EXECUTOR_FRAMES = re.compile(
    r'^  File "(?:<frozen runpy>|[^"]*/kfp/dsl/executor[^"]*)".*\n(?:    .*\n)*', re.MULTILINE
)


def handler_for(
    run: PipelineRun,
    *,
    service_url: str,
    temp_dir: Path,
    warm: WarmClient | None,
    engine: Engine | None = None,
) -> type:
    """A task handler class for kfp.local, bound to a run; with an engine steps are containers."""

    class TaskHandler(subprocess_task_handler.SubprocessTaskHandler):  # type: ignore[misc]
        """What kfp.local calls for each container task."""

        def validate_image(self, image: str) -> None:
            """Any image will do for a process; the images of containers have been checked."""

        def validate_not_container_component(self, full_command: list[str]) -> None:
            """Refuses, for a process, what is neither a Python component nor a GCPC operation."""
            if not (engine or gcpc_requests.is_launch(full_command) or _is_python(full_command)):
                raise _unsupported(full_command)

        def validate_not_containerized_python_component(self, full_command: list[str]) -> None:
            """Refuses components whose code is inside an image."""
            prefix = component_factory.CONTAINERIZED_PYTHON_COMPONENT_COMMAND
            if not engine and full_command[: len(prefix)] == prefix:
                raise _unsupported(full_command)

        def run(self) -> Any:
            """Runs the task to its end."""
            task = run.current
            assert task is not None
            task.has_run = True
            task.error = ""
            task.log_path.parent.mkdir(parents=True, exist_ok=True)
            try:
                if run.must_stop():  # cancelled between two attempts
                    raise TaskError("the run was cancelled")
                if gcpc_requests.is_launch(self.full_command):
                    _operate(run, task, self.full_command, service_url)
                elif engine:
                    # The host's network, as a process has it: steps ask this service.
                    container = engine.container(self.image, network=HOST)
                    self._run_step(task, self.full_command, container=container)
                else:
                    self._run_with_packages(task)
            except TaskError as error:  # kfp.local may try again
                task.error = str(error)
                return status.Status.FAILURE
            return status.Status.SUCCESS

        def _run_with_packages(self, task: Task) -> None:
            """Runs the step in an environment that has what KFP would install first."""
            step = Step.of(self.full_command)
            provider = Provider(
                task=task.unique_name,
                image=self.image,
                log_path=task.log_path,
                temp_dir=temp_dir / f"{task.unique_name}-environment",
                must_stop=run.must_stop,
            )
            with provider.environment(step) as environment:
                self._run_step(task, list(step.command), environment=environment)

        def _run_step(
            self,
            task: Task,
            command: list[str],
            *,
            container: Container | None = None,
            environment: Path | None = None,
        ) -> None:
            code = step_process.run(
                command,
                env=self.env_vars,
                log_path=task.log_path,
                temp_dir=temp_dir / task.unique_name,
                must_stop=run.must_stop,
                warm=warm,
                container=container,
                environment=environment,
            )
            _check_exit(code, task.log_path)

    return TaskHandler


def _operate(run: PipelineRun, task: Task, command: list[str], service_url: str) -> None:
    with task.log_path.open("a", buffering=1) as log:

        def say(line: str) -> None:
            log.write(f"{line}\n")
            sys.stdout.write(f"{line}\n")

        try:
            Operator(
                url=service_url, must_stop=run.must_stop, say=say, note=run.note_resource
            ).carry_out(command)
        except GcpcError as error:
            say(str(error))
            raise TaskError(str(error)) from None


def _check_exit(code: int, log_path: Path) -> None:
    if code == 0:
        return
    said = _without_executor(last_lines(log_path))
    words = f"Last lines:\n{said}" if said else "It wrote nothing."
    raise TaskError(f"the step {_how_it_ended(code)}. {words}")


def _how_it_ended(code: int) -> str:
    if code > SHELL_SIGNAL_BASE:
        return f"exited with code {code} (signal {code - SHELL_SIGNAL_BASE})"
    return f"exited with code {code}"


def _without_executor(text: str) -> str:
    """What the step said, without what KFP's executor says before it and around its traceback."""
    return EXECUTOR_FRAMES.sub("", EXECUTOR_INPUT.sub("", text))


def _is_python(command: list[str]) -> bool:
    return any(EXECUTOR_MODULE.search(part) for part in command)


def _unsupported(command: list[str]) -> TaskError:
    return TaskError(
        f"the command {' '.join(command)[:200]!r} is a container component's; this service runs "
        "lightweight Python components and these Google Cloud Pipeline Components: "
        f"{', '.join(gcpc_requests.SUPPORTED)}"
    )
