"""Execution of the tasks of a run that have an executor: steps, GCPC operations and importers."""

import errno
import json
import logging
import os
import re
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import tenacity

from vertex_local import Json
from vertex_local.machine.buckets import SCHEME
from vertex_local.machine.docker import HOST
from vertex_local.machine.docker_engine import Engine
from vertex_local.machine.files import last_lines, local_path
from vertex_local.pipelines import step_process
from vertex_local.pipelines.checks import uri_problem
from vertex_local.pipelines.executor_messages import executor_input, read_outputs
from vertex_local.pipelines.gcpc import requests as gcpc_requests
from vertex_local.pipelines.gcpc.operator import Operator
from vertex_local.pipelines.gcpc.requests import GcpcError
from vertex_local.pipelines.run_state import PipelineRun, Task, TaskError
from vertex_local.pipelines.step_cache import StepCache
from vertex_local.pipelines.step_environment import Provider
from vertex_local.pipelines.step_image import StepImage
from vertex_local.processes.environments.commands import Step
from vertex_local.processes.warm import WarmClient
from vertex_local.rules import placeholders
from vertex_local.rules.values import TaskValues, constants, defaults_of, typed

logger = logging.getLogger(__name__)

SHELL_SIGNAL_BASE = 128
TOO_LONG = "and Linux allows 128 KiB in an argument of a command; pass large values as artifacts"
DEFAULT_BACKOFF_FACTOR, DEFAULT_MAX_BACKOFF = 2.0, "3600s"  # as kfp.local's
# Also if the first of the last lines are its end.
EXECUTOR_INPUT = re.compile(r'\A((.*"outputFile": "[^"]*"\n)? +\}\n)?\}\n', re.DOTALL)
EXECUTOR_FRAMES = re.compile(
    r'^  File "(?:<frozen runpy>|[^"]*/kfp/dsl/executor[^"]*)".*\n(?:    .*\n)*', re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class TaskRunner:
    """Runner of the tasks of one run, from several threads.

    `checks.py` has refused pipelines with tasks that cannot be run here. `run_values` has
    the values of the run's placeholders. With an `engine` steps run in containers, else they are
    processes.
    """

    run: PipelineRun
    job: Json
    run_values: dict[str, str]
    cache: StepCache
    service_url: str
    temp_dir: Path
    warm: WarmClient | None = None
    engine: Engine | None = None

    @property
    def pipeline_root(self) -> str:
        """The folder of the run's outputs: a path, also of a bucket."""
        return str(local_path(self.job["runtimeConfig"]["gcsOutputDirectory"]))

    def folder_of(self, task: Task) -> str:
        """Return the folder of a task's outputs: in a bucket by Vertex AI's names, else KFP's."""
        folder = f"{self.run.folder.name}/{task.unique_name}"
        if self.job["runtimeConfig"]["gcsOutputDirectory"].startswith(SCHEME):
            folder = f"{self.run.name.split('/')[1]}/{folder}_{task.id}"
        return f"{self.pipeline_root}/{folder}"

    def execute(self, task: Task, spec: Json, inputs: TaskValues) -> TaskValues:
        """Run a task to its end, with retries, or take its outputs from the cache; return them.

        Raises:
            TaskError: It has failed.
        """
        pipeline = self.job["pipelineSpec"]
        name = spec["componentRef"]["name"]
        component = pipeline["components"][name]
        executor = pipeline["deploymentSpec"]["executors"][component["executorLabel"]]
        task.inputs = inputs
        attempt = Attempt.of(self, task, spec, component, inputs)
        self.run.record_inputs(task)
        if importer := executor.get("importer"):
            return attempt.imported(importer)
        container, options = executor["container"], spec.get("cachingOptions", {})
        key = ""
        if options.get("enableCache") or self.job.get("refreshesCache"):
            key = self.cache.key(name, container, inputs, custom=options.get("cacheKey", ""))
            if (cached := self.cache.get(key, task)) is not None:
                task.is_cached = True
                return cached
        retrying = self._retrying(task, spec.get("retryPolicy", {}))
        outputs = retrying(attempt.run, container)
        try:
            if key:
                self.cache.put(key, outputs)
            self.cache.complete_pending()
        except OSError as error:
            logger.warning("the outputs of %s are not cached: %s", task.unique_name, error)
        return outputs

    def _retrying(self, task: Task, policy: Json) -> tenacity.Retrying:
        def may_repeat(error: BaseException) -> bool:
            return isinstance(error, TaskError) and not self.run.must_stop(task)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_repeat),
            stop=tenacity.stop_after_attempt(1 + policy.get("maxRetryCount", 0)),
            wait=tenacity.wait_exponential(
                multiplier=_seconds(policy.get("backoffDuration", "0s")),
                exp_base=policy.get("backoffFactor") or DEFAULT_BACKOFF_FACTOR,
                max=_seconds(policy.get("backoffMaxDuration") or DEFAULT_MAX_BACKOFF),
            ),
            sleep=partial(self.run.sleep, task),
            before_sleep=tenacity.before_sleep_log(logger, logging.INFO),
            reraise=True,
        )


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A task with its inputs, to be run once or several times.

    `executor_input` is KFP's message for a step: its inputs, and where it writes its outputs.
    `fillable` are the parameters whose texts may have placeholders: constants and defaults.
    """

    runner: TaskRunner
    task: Task
    component: Json
    executor_input: Json
    fillable: set[str]

    @classmethod
    def of(
        cls, runner: TaskRunner, task: Task, spec: Json, component: Json, inputs: TaskValues
    ) -> "Attempt":
        """Return the attempt for a task; its journal gets its parameters with defaults."""
        defaults = defaults_of(component)
        values = replace(inputs, parameters=defaults | inputs.parameters)
        message = executor_input(component, typed(component, values), folder=runner.folder_of(task))
        fillable = constants(spec) | (defaults.keys() - inputs.parameters.keys())
        attempt = cls(
            runner=runner, task=task, component=component, executor_input=message, fillable=fillable
        )
        parameters = message["inputs"]["parameterValues"]
        for name in fillable & parameters.keys():
            if isinstance(parameters[name], str):
                parameters[name] = attempt.filled(parameters[name])
        task.inputs = TaskValues(parameters, inputs.artifacts)
        return attempt

    def filled(self, text: str) -> str:
        """Return a text with the values of its placeholders."""
        output_file = self.executor_input["outputs"]["outputFile"]
        of_task = {
            "outputs.output_file": output_file,
            "outputMetadataUri": output_file,
            "pipeline_task_name": self.task.unique_name,
            "pipeline_task_uuid": str(self.task.id),
            "pipeline_root": self.runner.pipeline_root,
        }
        values = self.runner.run_values | {f"{{{{$.{name}}}}}": of_task[name] for name in of_task}
        return placeholders.resolve(text, values, self.executor_input, self.fillable)

    def imported(self, importer: Json) -> TaskValues:
        """Return the output of an importer.

        Raises:
            TaskError: Its URI is not on this machine.
        """
        source = importer["artifactUri"]
        parameters = self.executor_input["inputs"]["parameterValues"]
        uri = str(source.get("constant") or parameters.get(source["runtimeParameter"], ""))
        if problem := uri_problem(uri):
            raise TaskError(problem)
        metadata = json.dumps(importer.get("metadata", {}))
        artifact = {
            "name": "artifact",
            "uri": str(local_path(uri) or uri),
            "type": importer.get("typeSchema", {}),
            "metadata": json.loads(self.filled(metadata)),
        }
        return TaskValues(artifacts={"artifact": [artifact]})

    def run(self, container: Json) -> TaskValues:
        """Run the task's command once; return its outputs.

        Raises:
            TaskError: It has failed.
        """
        runner, task = self.runner, self.task
        task.log_path.parent.mkdir(parents=True, exist_ok=True)
        if runner.run.must_stop(task):  # cancelled between two attempts
            raise TaskError("the run was cancelled")
        parts = [*container.get("command", []), *container.get("args", [])]
        command = placeholders.command(parts, self.executor_input["inputs"], self.filled)
        variables = container.get("env", [])
        env = {variable["name"]: self.filled(variable.get("value", "")) for variable in variables}
        if gcpc_requests.is_notification(command):
            self._log_mail()
        elif gcpc_requests.is_launch(command):
            self._operate(command)
        elif runner.engine:
            # The host's network, because steps send requests to this service.
            box = runner.engine.container(container.get("image", ""), network=HOST)
            self._run_step(command, env, container=box)
        else:
            self._run_in_environment(command, env, image=container.get("image", ""))
        return read_outputs(self.component, self.executor_input)

    def _log_mail(self) -> None:
        """Write the mail of VertexNotificationEmailOp into the task's log; none is sent."""
        values = self.executor_input["inputs"]["parameterValues"]
        status = values["pipeline_task_final_status"]
        lines = [
            "This service sends no mail. On Vertex AI this one would be sent:",
            f"To: {', '.join(values['recipients'])}",
            f"Subject: {status['pipeline_job_resource_name']} has ended: {status['state']}",
            status.get("error", {}).get("message", ""),
        ]
        self.task.log_path.write_text("\n".join(lines).rstrip() + "\n")

    def _operate(self, command: list[str]) -> None:
        operator = Operator(
            url=self.runner.service_url,
            must_stop=self._must_stop,
            write_log=self._log,
            on_created=partial(self.runner.run.record_resource, self.task),
        )
        try:
            operator.execute(command)
        except GcpcError as error:
            self._log(str(error))
            raise TaskError(str(error)) from None

    def _log(self, line: str) -> None:
        with self.task.log_path.open("a") as log:
            log.write(f"{line}\n")
        sys.stdout.write(f"{line}\n")

    def _must_stop(self) -> bool:
        return self.runner.run.must_stop(self.task)

    def _run_in_environment(self, command: list[str], env: dict[str, str], *, image: str) -> None:
        """Run the step in an environment with what it has of its image and KFP installs first."""
        step = Step.of(command)
        provider = Provider(
            task=self.task.unique_name,
            image=StepImage.of(image),
            run=partial(self._run_step, env={}),
            must_stop=self._must_stop,
            log=self._log,
        )
        try:
            self._run_step(list(step.command), env, environment=provider.environment(step))
        except TaskError as error:
            raise TaskError(provider.image.explained(str(error))) from None

    def _run_step(self, command: list[str], env: dict[str, str], **options: Any) -> None:
        try:
            code = step_process.run(
                command,
                env=env,
                log_path=self.task.log_path,
                temp_dir=self.runner.temp_dir / self.task.unique_name,
                must_stop=self._must_stop,
                warm=self.runner.warm,
                **options,
            )
        except OSError as error:
            if os.strerror(errno.E2BIG) not in str(error):
                raise
            size = max(len(word.encode()) for word in command) // 1024
            raise TaskError(f"its parameters have {size} KiB, {TOO_LONG}") from None
        if code != 0:
            raise TaskError(exit_message(code, self.task.log_path))


def _seconds(duration: str) -> float:
    """Return the seconds of a protobuf duration, `30s`."""
    return float(duration.removesuffix("s"))


def exit_message(code: int, log_path: Path) -> str:
    """Return the error of a step that has failed, with its own last lines."""
    signal = f" (signal {code - SHELL_SIGNAL_BASE})" if code > SHELL_SIGNAL_BASE else ""
    # Without what KFP's executor logs before a step's output and around its traceback.
    output = EXECUTOR_FRAMES.sub("", EXECUTOR_INPUT.sub("", last_lines(log_path)))
    tail = f"Last lines:\n{output}" if output else "It wrote nothing."
    return f"the step exited with code {code}{signal}. {tail}"
