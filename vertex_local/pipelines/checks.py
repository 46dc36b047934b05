"""Check, before a run starts, that this service can run each task of its pipeline.

This includes exit tasks and conditional tasks: their conditions are unknown until the tasks before
them have run.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vertex_local import Json
from vertex_local.endpoints.serving_contract import PREBUILT
from vertex_local.machine.files import local_path, path_problem
from vertex_local.pipelines.gcpc import requests as gcpc_requests
from vertex_local.rules import conditions, placeholders
from vertex_local.rules.values import defaults_of

URI_SCHEMES = ("file", "http", "https")  # the last two name resources of Vertex AI
# A job in an image of Google's: it is in the payload, not in the caller's worker pools.
GOOGLE_IMAGE = re.compile(r'image_uri[\\"]+:')

# The Python components of AutoML need packages that only its images have.
AUTOML_IMAGE = re.compile(r".*/vertex-ai(-restricted)?/automl-tabular/.*")
EXECUTOR_MODULE = re.compile(r"\bkfp\.(dsl|components)\.executor_main\b")  # the latter: kfp 2.0
# kfp.dsl.component_factory.CONTAINERIZED_PYTHON_COMPONENT_COMMAND: its code is in the image.
CONTAINERIZED = ["python3", "-m", "kfp.dsl.executor_main"]
CHANNEL = "{{channel:"  # what an f-string with a parameter or an output becomes
NO_ENTRY_POINT = "and this service ignores the entry point of images; give a command"


@dataclass(frozen=True)
class Checker:
    """Check of a specification, in its canonical form, for tasks that this service cannot run.

    Of `run_values`, the run's own placeholders, only the names are used.
    """

    spec: Json
    run_values: dict[str, str]
    runs_containers: bool = False
    runs_host_commands: bool = False

    def problems(self, values: Json) -> list[str]:
        """Return one line per problem, `TASK: PROBLEM`; `values` are the pipeline's parameters."""
        return list(dict.fromkeys(self._graph_problems("", self.spec["root"], values, ())))

    def _graph_problems(
        self, place: str, component: Json, values: Json, parents: tuple[str, ...]
    ) -> Iterator[str]:
        values = defaults_of(component) | values
        tasks = component["dag"].get("tasks", {})
        for producer in _producers(component["dag"].get("outputs", {})):
            if producer not in tasks:
                yield f"{place}{producer}: an output refers to this task, but it does not exist"
        for name, task in tasks.items():
            path = f"{place}{name}"
            known = self._known(task, values)
            for problem in self._input_problems(task, component):
                yield f"{path}: {problem}"
            reference = task["componentRef"]["name"]
            used = self.spec["components"][reference]
            if "dag" in used:
                if reference in parents:
                    yield f"{path}: it contains itself"
                else:
                    yield from self._graph_problems(f"{path}/", used, known, (*parents, reference))
                continue
            executor = self._executors.get(used.get("executorLabel", ""), {})
            for problem in self._executor_problems(executor, defaults_of(used) | known):
                yield f"{path}: {problem}"

    def _known(self, task: Json, values: Json) -> Json:
        """Return the values of a task's inputs that are known before the run."""
        known = {}
        for name, source in task.get("inputs", {}).get("parameters", {}).items():
            if "constant" in source.get("runtimeValue", {}):
                known[name] = source["runtimeValue"]["constant"]
            elif source.get("componentInputParameter") in values:
                known[name] = values[source["componentInputParameter"]]
        return known

    def _input_problems(self, task: Json, parent: Json) -> Iterator[str]:
        inputs, defined = task.get("inputs", {}), parent.get("inputDefinitions", {})
        for kind, field in (("parameters", "Parameter"), ("artifacts", "Artifact")):
            for source in inputs.get(kind, {}).values():
                name = source.get(f"componentInput{field}")
                if name is not None and name not in defined.get(kind, {}):
                    yield f"its input {name!r} is not defined{_hint(name)}"
                for found in placeholders.unknown(source.get("runtimeValue"), self.run_values):
                    yield f"unknown placeholder {found}"
        if condition := task.get("triggerPolicy", {}).get("condition"):
            try:
                conditions.parse(condition)
            except conditions.ConditionError as error:
                yield str(error)

    def _executor_problems(self, executor: Json, known: Json) -> Iterator[str]:
        if container := executor.get("container"):
            command = [*container.get("command", []), *container.get("args", [])]
            yield from self._command_problems(container, known)
            values = [one.get("value", "") for one in container.get("env", [])]
            for found in placeholders.unknown([*command, *values], self.run_values):
                yield f"unknown placeholder {found}"
            for variable in container.get("env", []):
                if CHANNEL in variable.get("value", ""):
                    yield (
                        f"the environment variable {variable['name']} is {variable['value']!r}: "
                        "KFP gives it no parameter or output; pass that to the step as an argument"
                    )
        elif importer := executor.get("importer"):
            yield from self._importer_problems(importer, known)
        else:
            yield f"the executor type {'/'.join(executor) or 'none'} is not supported"

    def _command_problems(self, container: Json, known: Json) -> Iterator[str]:
        command = [*container.get("command", []), *container.get("args", [])]
        if gcpc_requests.is_launch(command):
            yield from _launch_problems(command, known)
        elif self.runs_containers:
            return  # `resource.plan` checks that the image is on this machine
        elif AUTOML_IMAGE.fullmatch(container.get("image", "")) or not is_python_component(command):
            yield from self._program_problems(container)

    def _program_problems(self, container: Json) -> Iterator[str]:
        """Yield the problem of a command that is no Python component, if there is one."""
        is_here = has_program(container.get("command", []))
        if self.runs_host_commands and is_here:
            return
        need = f"it needs the container image {container.get('image', '')}"
        if self.runs_host_commands:
            need += ", since this machine has not its program"
        other_way = ", or with --host-commands to run this machine's program" if is_here else ""
        yield f"{need}; start the service with --containers to run it{other_way}"

    def _importer_problems(self, importer: Json, known: Json) -> Iterator[str]:
        uri = importer.get("artifactUri", {})
        value = uri.get("constant", known.get(uri.get("runtimeParameter", ""), ""))
        if value and (problem := uri_problem(str(value))):
            yield problem
        metadata = importer.get("metadata", {})
        for found in placeholders.unknown(metadata, self.run_values):
            yield f"unknown placeholder {found}"
        container = _object(metadata.get("containerSpec"))
        image = container.get("imageUri", "")
        has_server = container.get("command") or PREBUILT.fullmatch(image)
        if image and not has_server and self._deploys_model:
            yield f"the model's containerSpec has no command, {NO_ENTRY_POINT}"

    @property
    def _deploys_model(self) -> bool:
        containers = [one.get("container", {}) for one in self._executors.values()]
        return any("DeployModel" in one.get("args", []) for one in containers)

    @property
    def _executors(self) -> Json:
        found: Json = self.spec.get("deploymentSpec", {}).get("executors", {})
        return found


def uri_problem(uri: str) -> str:
    """Return the problem of a URI for an importer; empty if there is none."""
    scheme, has_scheme, _ = uri.partition("://")
    is_remote = has_scheme and scheme.isalnum()
    if uri.startswith("/") or (is_remote and scheme in URI_SCHEMES) or "{{$" in uri:
        return ""
    if local_path(uri):
        return ""
    return f"it imports {uri}, which {path_problem(uri)}"


def _producers(value: Any) -> Iterator[str]:
    """Yield the tasks whose outputs are outputs of a group."""
    if isinstance(value, dict):
        if "producerSubtask" in value:
            yield value["producerSubtask"]
        value = list(value.values())
    for one in value if isinstance(value, list) else []:
        yield from _producers(one)


def has_program(command: list[str]) -> bool:
    """Return whether this machine has a command's program, which may be known only in the run."""
    if not command or command[: len(CONTAINERIZED)] == CONTAINERIZED:
        return False
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    is_structure = command[0].startswith(placeholders.STRUCTURES)
    return is_structure or shutil.which(command[0], path=path) is not None


def is_python_component(command: list[str]) -> bool:
    """Return whether a command is a lightweight Python component (its code is in the command)."""
    has_executor = any(EXECUTOR_MODULE.search(part) for part in command)
    return has_executor and command[: len(CONTAINERIZED)] != CONTAINERIZED


def _launch_problems(command: list[str], known: Json) -> Iterator[str]:
    """Yield the problems of an operation of Google's components."""
    kind = gcpc_requests.operation(command)
    if kind not in gcpc_requests.SUPPORTED:
        name = kind or gcpc_requests.launcher_module(command)
        yield f"the operation {name} is not supported by this service"
    elif kind == "CustomJob" and any(GOOGLE_IMAGE.search(part) for part in command):
        yield "it is a job in one of Google's images, which this service cannot run"
    elif kind == "CustomJob":
        yield from _pool_problems(known.get("worker_pool_specs"))


def _pool_problems(pools: Any) -> Iterator[str]:
    """Yield the problems of the worker pools of a job, if they are known."""
    for index, pool in enumerate(pools if isinstance(pools, list) else []):
        field = f"worker_pool_specs[{index}]"
        if not isinstance(pool, dict) or not pool:
            continue
        if "python_package_spec" not in pool and not _object(pool.get("container_spec")).get(
            "command"
        ):
            yield f"{field}.container_spec has no command, {NO_ENTRY_POINT}"


def _object(value: Any) -> Json:
    """Return a JSON object; {} for any other value."""
    return value if isinstance(value, dict) else {}


def _hint(name: str) -> str:
    if "loop-item" not in name:
        return ""
    return " (kfp compiles f-strings with loop items so; pass each item as its own argument)"
