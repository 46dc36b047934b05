"""Record of a pipeline run: checks of a PipelineJob, and the list of its tasks."""

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from vertex_local import Json
from vertex_local.api.resource_names import ResourcePath
from vertex_local.errors import ApiError, invalid_argument
from vertex_local.machine import buckets
from vertex_local.machine.files import local_path, path_problem
from vertex_local.pipelines.gcpc import requests as gcpc_requests
from vertex_local.rules.values import runs_always, upstream_of

ROOT = ""
ANY_JOB = {"name": "projects/p/locations/l/pipelineJobs/run"}

TYPES: dict[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int, float),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "LIST": (list,),
    "STRUCT": (dict,),
}


@dataclass(frozen=True)
class Leaf:
    """Task with an executor, as opposed to a group of tasks; `key` is by `leaf_key`."""

    key: str
    name: str
    display_name: str
    is_exit: bool = False


def leaf_key(dag: str, task: str) -> str:
    """Return the key of a task: the component of its graph, and its name."""
    return f"{dag}/{task}"


def plan(body: Json, **ways: bool) -> Json:
    """Return the checked specification and complete parameters of a PipelineJob.

    `ways` are the Checker's ways to run images.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
    if not body.get("pipelineSpec"):
        raise invalid_argument(
            "pipelineSpec is missing; give a pipeline compiled with kfp (templateUri is not "
            "supported by this service)."
        )
    spec = canonical(body["pipelineSpec"])
    config = body.get("runtimeConfig", {})
    if "inputArtifacts" in config or "parameters" in config:
        raise invalid_argument(
            "runtimeConfig.inputArtifacts and runtimeConfig.parameters are not supported; "
            "give runtimeConfig.parameterValues."
        )
    artifacts = spec["root"].get("inputDefinitions", {}).get("artifacts", {})
    if required := sorted(name for name in artifacts if not artifacts[name].get("isOptional")):
        raise invalid_argument(
            f"runtimeConfig.inputArtifacts: {', '.join(required)} must be given, but this service "
            "takes no artifacts; make the file's path a parameter, and import it with dsl.importer."
        )
    root = _pipeline_root(config.get("gcsOutputDirectory") or spec.get("defaultPipelineRoot", ""))
    values = parameters(spec, config.get("parameterValues", {}))
    check_tasks(spec, values, **ways)
    return {
        "pipelineSpec": spec,
        "runtimeConfig": {**config, "gcsOutputDirectory": root, "parameterValues": values},
        "refreshesCache": _disables_cache(body["pipelineSpec"]),
    }


def _disables_cache(spec: Json) -> bool:
    """Return whether the run executes every step: the SDK's `enable_caching=False`.

    It sets `enableCache` of all tasks to false; the compiler leaves it out where it is false.
    """
    components = [spec["root"], *spec.get("components", {}).values()]
    tasks = [task for one in components for task in one.get("dag", {}).get("tasks", {}).values()]
    return all(task.get("cachingOptions", {}).get("enableCache") is False for task in tasks)


def canonical(spec: Json) -> Json:
    """Check a specification against KFP's proto; return it as camelCase JSON.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the field.
    """
    from google.protobuf import json_format
    from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineDeploymentConfig, PipelineSpec

    try:
        message = json_format.ParseDict(spec, PipelineSpec())
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise invalid_argument(f"pipelineSpec is not a compiled pipeline: {error}") from None
    if not message.root.dag.tasks:
        raise invalid_argument("pipelineSpec.root.dag has no tasks; compile it with kfp.compiler.")
    checked: Json = json_format.MessageToDict(message)
    executors = checked.get("deploymentSpec", {}).get("executors", {})
    if not isinstance(executors, dict):
        raise invalid_argument("pipelineSpec.deploymentSpec.executors is not an object.")
    for name, executor in executors.items():
        try:
            parsed = json_format.ParseDict(executor, PipelineDeploymentConfig.ExecutorSpec())
        except (json_format.ParseError, ValueError, TypeError, AttributeError) as error:
            field = f"pipelineSpec.deploymentSpec.executors.{name}"
            raise invalid_argument(f"{field} is not an executor: {error}") from None
        executors[name] = json_format.MessageToDict(parsed)
    _check_components(checked)
    return checked


def check_tasks(spec: Json, values: Json, **ways: bool) -> None:
    """Check that this service can run every task.

    Raises:
        ApiError: INVALID_ARGUMENT, with each task that it cannot run and the reason.
    """
    from vertex_local.pipelines.checks import Checker

    checker = Checker(spec, run_values(ANY_JOB), **ways)
    if problems := checker.problems(values):
        raise invalid_argument(
            "this service cannot run these tasks of the pipeline (conditional ones included):"
            + "".join(f"\n  {problem}" for problem in problems)
        )


def images(spec: Json) -> dict[str, str]:
    """Return the images that the service must run, each with a field that names it."""
    found: dict[str, str] = {}
    for name, executor in sorted(spec.get("deploymentSpec", {}).get("executors", {}).items()):
        container = executor.get("container")
        if container and not gcpc_requests.is_launch(container.get("command", [])):
            field = f"pipelineSpec.deploymentSpec.executors.{name}.container.image"
            found.setdefault(container.get("image", ""), field)
    return found


def leaves(spec: Json) -> list[Leaf]:
    """Return the tasks with an executor, graph by graph; each graph once."""
    tasks_of = {
        name: component["dag"].get("tasks", {})
        for name, component in {ROOT: spec["root"], **spec["components"]}.items()
        if "dag" in component
    }
    return [
        Leaf(
            leaf_key(graph, name),
            name,
            display_name=task.get("taskInfo", {}).get("name") or name,
            is_exit=_is_exit(spec, task, tasks),
        )
        for graph, tasks in tasks_of.items()
        for name, task in tasks.items()
        if task["componentRef"]["name"] not in tasks_of
    ]


def parameters(spec: Json, given: Json) -> Json:
    """Return the parameter values of a run: those given, checked against their types.

    Optional parameters without a value and a default are None.

    Raises:
        ApiError: INVALID_ARGUMENT, naming the parameter and the allowed values.
    """
    declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    for name in given:
        if name not in declared:
            allowed = ", ".join(sorted(declared)) or "none"
            raise invalid_argument(
                f'"{name}" is not a parameter of this pipeline; its parameters are: {allowed}.'
            )
    values = {name: _typed(name, given[name], declared[name]) for name in given}
    for name, definition in declared.items():
        if name in values or "defaultValue" in definition:
            continue
        if not definition.get("isOptional"):
            raise invalid_argument(
                f'parameter "{name}" ({definition["parameterType"]}) has no default; '
                "give it in runtimeConfig.parameterValues."
            )
        values[name] = None
    return values


def _pipeline_root(root: str) -> str:
    field = "runtimeConfig.gcsOutputDirectory"
    folder = local_path(root)
    if folder is None:
        raise invalid_argument(f'{field} "{root}" {path_problem(root)}.')
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid_argument(f'{field} "{root}" cannot be created: {error.strerror}.') from None
    return root if root.startswith(buckets.SCHEME) else str(folder)


def _typed(name: str, value: Any, definition: Json) -> Any:
    kind = definition["parameterType"]
    is_valid = isinstance(value, TYPES.get(kind, (object,)))
    if kind.startswith("NUMBER"):
        is_valid = is_valid and not isinstance(value, bool)
    if kind == "NUMBER_INTEGER" and is_valid:
        is_valid = value == int(value)
    if not is_valid:
        raise invalid_argument(f'parameter "{name}" is {value!r}; it must be {kind}.')
    return int(value) if kind == "NUMBER_INTEGER" else value


def _is_exit(spec: Json, task: Json, siblings: Json) -> bool:
    """Return whether it is an exit task, as opposed to one with `.ignore_upstream_failure()`.

    An exit task takes the final status, or at least depends on a group of tasks.
    """
    if not runs_always(task):
        return False
    inputs = task.get("inputs", {}).get("parameters", {}).values()
    upstream = [siblings[name] for name in task.get("dependentTasks", []) if name in siblings]
    return any("taskFinalStatus" in one for one in inputs) or any(
        "dag" in spec["components"][one["componentRef"]["name"]] for one in upstream
    )


def _check_components(spec: Json) -> None:
    graphs = {"root": spec["root"], **spec.get("components", {})}
    executors = spec.get("deploymentSpec", {}).get("executors", {})
    for graph, component in graphs.items():
        tasks = component.get("dag", {}).get("tasks", {})
        for name, task in tasks.items():
            if task.get("componentRef", {}).get("name") not in spec.get("components", {}):
                raise _dangling(f"{graph}.dag.tasks.{name}.componentRef", task.get("componentRef"))
            if unknown := upstream_of(task) - tasks.keys():
                raise _dangling(f"{graph}.dag.tasks.{name}", min(unknown))
        try:
            TopologicalSorter({name: upstream_of(tasks[name]) for name in tasks}).prepare()
        except CycleError as error:
            cycle = " → ".join(error.args[1])
            raise invalid_argument(
                f"pipelineSpec.{graph}.dag.tasks wait for one another: {cycle}; remove one `after`."
            ) from None
        label = component.get("executorLabel")
        if label and label not in executors:
            raise _dangling(f"components.{graph}.executorLabel", label)


def _dangling(field: str, value: Any) -> ApiError:
    return invalid_argument(f"pipelineSpec.{field} refers to {value!r}, which is not defined.")


def run_values(job: Json) -> dict[str, str]:
    """Return the values of the placeholders that are the same for all tasks of a PipelineJob."""
    name = ResourcePath.from_name(job["name"])
    values = {
        "pipeline_job_name": name.id,
        "pipeline_job_uuid": name.id,
        "pipeline_job_resource_name": job["name"],
        "pipeline_job_create_time_utc": job.get("createTime", ""),
        "pipeline_job_schedule_time_utc": job.get("scheduledRunTime") or job.get("createTime", ""),
        "pipeline_google_cloud_project_id": name.project,
        "pipeline_google_cloud_location": name.location,
        "pipeline_service_account": job.get("serviceAccount", ""),
        "pipeline_network": job.get("network", ""),
        "pipeline_encryption_key_name": job.get("encryptionSpec", {}).get("kmsKeyName", ""),
        "pipeline_persistent_resource_id": "",
    }
    return {f"{{{{$.{name}}}}}": value for name, value in values.items()}
