"""Runs the container tasks of a pipeline run: Python components, containers, GCPC operations."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kfp.local import status

from vertex_local.machine.docker import HOST
from vertex_local.machine.files import last_lines
from vertex_local.pipelines import step_process
from vertex_local.pipelines.gcpc import requests as gcpc_requests
from vertex_local.pipelines.gcpc.operator import Operator
from vertex_local.pipelines.gcpc.requests import GcpcError
from vertex_local.pipelines.run_state import RunContext, Task, TaskError
from vertex_local.pipelines.step_environment import Provider
from vertex_local.processes.environments.commands import Step

SHELL_SIGNAL_BASE = 128
EXECUTOR_INPUT = re.compile(r'\A.*"outputFile": "[^"]*"\n *\}\n\}\n', re.DOTALL)
EXECUTOR_FRAMES = re.compile(
    r'^  File "(?:<frozen runpy>|[^"]*/kfp/dsl/executor[^"]*)".*\n(?:    .*\n)*', re.MULTILINE
)


@dataclass(frozen=True)
class TaskHandler:
    """One container task; takes the place of kfp.local's SubprocessTaskHandler.

    `checks.py` has refused pipelines with tasks that cannot be run here.
    """

    context: RunContext
    image: str
    full_command: list[str]
    pipeline_root: str
    runner: Any
    env_vars: dict[str, str]

    def run(self) -> status.Status:
        """Run the task to its end; kfp.local retries a failed one."""
        context, task = self.context, self.context.run.current
        assert task is not None
        task.has_run = True
        task.error = ""
        task.log_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if context.run.must_stop():  # cancelled between two attempts
                raise TaskError("the run was cancelled")
            if gcpc_requests.is_launch(self.full_command):
                self._operate(task)
            elif context.engine:
                # The host's network, because steps send requests to this service.
                container = context.engine.container(self.image, network=HOST)
                self._run_step(task, self.full_command, container=container)
            else:
                self._run_in_environment(task)
        except TaskError as error:
            task.error = str(error)
            return status.Status.FAILURE
        return status.Status.SUCCESS

    def _operate(self, task: Task) -> None:
        run = self.context.run
        with task.log_path.open("a", buffering=1) as log:

            def write_log(line: str) -> None:
                log.write(f"{line}\n")
                sys.stdout.write(f"{line}\n")

            operator = Operator(
                url=self.context.service_url,
                must_stop=run.must_stop,
                write_log=write_log,
                on_created=run.record_resource,
            )
            try:
                operator.execute(self.full_command)
            except GcpcError as error:
                write_log(str(error))
                raise TaskError(str(error)) from None

    def _run_in_environment(self, task: Task) -> None:
        """Run the step in an environment with the packages that KFP would install first."""
        step = Step.of(self.full_command)
        provider = Provider(
            task=task.unique_name,
            image=self.image,
            log_path=task.log_path,
            temp_dir=self.context.temp_dir / f"{task.unique_name}-environment",
            must_stop=self.context.run.must_stop,
        )
        self._run_step(task, list(step.command), environment=provider.environment(step))

    def _run_step(self, task: Task, command: list[str], **arguments: Any) -> None:
        code = step_process.run(
            command,
            env=self.env_vars,
            log_path=task.log_path,
            temp_dir=self.context.temp_dir / task.unique_name,
            must_stop=self.context.run.must_stop,
            warm=self.context.warm,
            **arguments,
        )
        if code != 0:
            raise TaskError(_exit_message(code, task.log_path))


def _exit_message(code: int, log_path: Path) -> str:
    signal = f" (signal {code - SHELL_SIGNAL_BASE})" if code > SHELL_SIGNAL_BASE else ""
    output = _without_executor(last_lines(log_path))
    tail = f"Last lines:\n{output}" if output else "It wrote nothing."
    return f"the step exited with code {code}{signal}. {tail}"


def _without_executor(text: str) -> str:
    """Remove what KFP's executor logs before a step's output and around its traceback."""
    return EXECUTOR_FRAMES.sub("", EXECUTOR_INPUT.sub("", text))
