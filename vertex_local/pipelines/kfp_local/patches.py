"""Patches of kfp.local: every function of it that this service replaces.

kfp.local has no callbacks, so attributes of its modules are replaced. `replace` checks that each
exists and takes the same parameters as in kfp 2.17.0.

| replaced                                   | reason |
|--------------------------------------------|---|
| task_executor.execute_single_task          | the journal; an exception would skip exit tasks |
| enhanced_dag_orchestrator.execute_task     | strict conditions; the same for groups of tasks |
| enhanced_dag_orchestrator._run_parallel_…  | guesses a loop's items and inputs from names |
| OrchestratorUtils.get_dag_outputs          | OneOf of artifacts; outputs of skipped tasks |
| ConditionEvaluator.evaluate_condition      | treats a condition that it cannot evaluate as false |
| OrchestratorUtils.make_task_arguments      | final status of exit tasks with the run's name |
| SubprocessTaskHandler                      | GCPC operations; steps that can be stopped |
| placeholder_utils.resolve_individual_…     | the placeholders of the run |
| executor_input_utils.get_local_task_…      | two tasks of one component shared an output folder |
| executor_input_utils.executor_input_to_…   | 3 in a structure or a string became 3.0 |
| LocalCache.get, put, …                     | dropped outputs whose file is written later |
| LocalCache.compute_key                     | pipelines of all names shared the cache |
| task_executor.time                         | cancelling must end the pause before a retry |
| logging_utils.color_text                   | logs without colours |
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kfp.dsl.executor import create_artifact_instance
from kfp.local import (
    cache,
    executor_input_utils,
    logging_utils,
    placeholder_utils,
    status,
    subprocess_task_handler,
)
from kfp.local.orchestrator import enhanced_dag_orchestrator, orchestrator_utils, task_executor
from kfp.pipeline_spec import pipeline_spec_pb2

from vertex_local import Json
from vertex_local.errors import rpc_status
from vertex_local.pipelines import placeholders
from vertex_local.pipelines.kfp_local import task_groups
from vertex_local.pipelines.kfp_local.compatibility import replace
from vertex_local.pipelines.kfp_local.conditions import ConditionError, evaluate
from vertex_local.pipelines.kfp_local.step_cache import StepCache
from vertex_local.pipelines.kfp_local.task_groups import Result
from vertex_local.pipelines.record import leaf_key
from vertex_local.pipelines.run_state import PipelineRun

FAILED: Result = ({}, status.Status.FAILURE)
NUMBER_DOUBLE = pipeline_spec_pb2.ParameterType.ParameterTypeEnum.NUMBER_DOUBLE
# Artifacts without a file; kfp.local's cache requires one, unlike that of Vertex AI.
METADATA_ONLY = {
    "system.Metrics",
    "system.ClassificationMetrics",
    "system.SlicedClassificationMetrics",
}


def install(
    run: PipelineRun,
    *,
    job: Json,
    handler: Callable[..., Any],
    is_being_written: Callable[[Path], bool],
) -> None:
    """Apply every patch, for the one run of this process; `job` has its checked specification.

    `is_being_written` returns whether an unfinished job writes to a folder.
    """
    step_cache = _patch_cache(run, job, is_being_written)
    patches = Patches(run, placeholders.of_job(job), step_cache)
    evaluator = enhanced_dag_orchestrator.ConditionEvaluator
    utils = orchestrator_utils.OrchestratorUtils
    replace(task_executor, "execute_single_task", patches.execute_single_task)
    replace(enhanced_dag_orchestrator, "execute_task", patches.execute_task)
    replace(enhanced_dag_orchestrator, "_run_parallel_for_task", patches.groups.run_loop)
    replace(evaluator, "evaluate_condition", staticmethod(_true), takes=("condition", "io_store"))
    replace(utils, "make_task_arguments", patches.make_task_arguments)
    outputs_of = staticmethod(task_groups.outputs_of)
    replace(utils, "get_dag_outputs", outputs_of, takes=("dag_outputs_spec", "io_store"))
    replace(subprocess_task_handler, "SubprocessTaskHandler", handler)
    replace(placeholder_utils, "resolve_individual_placeholder", patches.resolve_placeholder)
    replace(executor_input_utils, "get_local_task_resource_name", patches.task_resource_name)
    replace(executor_input_utils, "executor_input_to_dict", patches.executor_input_to_dict)
    replace(task_executor, "time", SimpleNamespace(sleep=run.sleep), takes=())
    replace(logging_utils, "color_text", lambda text, color: text, takes=("text", "color"))


def _patch_cache(
    run: PipelineRun, job: Json, is_being_written: Callable[[Path], bool]
) -> StepCache:
    """Replace the methods of kfp.local's cache."""
    local_cache = cache.LocalCache
    steps = StepCache(local_cache, run=run, job=job, is_being_written=is_being_written)

    def compute_key(
        self: Any, component_name: str, custom_cache_key: str | None, **facts: Any
    ) -> str:
        return steps.compute_key(self, component_name, custom_cache_key, **facts)

    def get(self: Any, key: str) -> Json | None:
        return steps.get(self, key)

    def put(self: Any, key: str, outputs: Json) -> None:
        _touch_metadata_artifacts(outputs)
        steps.put(self, key, outputs)

    replace(local_cache, "compute_key", compute_key)
    replace(local_cache, "get", get)
    replace(local_cache, "put", put)
    serialize, deserialize = steps.serialize_artifact, steps.deserialize_artifact
    replace(local_cache, "_serialize_artifact", staticmethod(serialize), takes=("artifact",))
    replace(local_cache, "_deserialize_artifact", staticmethod(deserialize), takes=("data",))
    return steps


class Patches:
    """Replacements that need the state of the run; they call the original functions."""

    def __init__(
        self, run: PipelineRun, run_placeholders: dict[str, str], step_cache: StepCache
    ) -> None:
        self._run = run
        self._step_cache = step_cache
        self._placeholders = run_placeholders
        self._execute_single_task = task_executor.execute_single_task
        self._execute_task = enhanced_dag_orchestrator.execute_task
        self._make_arguments = orchestrator_utils.OrchestratorUtils.make_task_arguments
        self._to_dict = executor_input_utils.executor_input_to_dict
        self._resolve = placeholder_utils.resolve_individual_placeholder
        self.groups = task_groups.TaskGroups(run, self._arguments)

    def execute_single_task(
        self, task_name: str, task_spec: Any, components: Json, executors: Json, **others: Any
    ) -> Result:
        """Run and journal a task with an executor."""
        component = components[task_spec.component_ref.name]
        executor = executors[component.executor_label]

        key, scope = leaf_key(self._run.graph, task_name), others["pipeline_resource_name"]
        if end := self._run.previous.success(key, scope):
            return _outputs_of(end, component), status.Status.SUCCESS

        def execute() -> tuple[Json, bool]:
            outputs, outcome = self._execute_single_task(
                task_name=task_name,
                task_spec=task_spec,
                components=components,
                executors=executors,
                **others,
            )
            _touch_metadata_artifacts(outputs)
            self._step_cache.complete_pending()
            return outputs, outcome == status.Status.SUCCESS

        outputs, is_success = self._run.run_task(
            key,
            task_name,
            scope=scope,
            is_importer=executor.WhichOneof("spec") == "importer",
            execute=execute,
        )
        return (outputs, status.Status.SUCCESS) if is_success else FAILED

    def execute_task(
        self, task_name: str, task_spec: Any, components: Json, io_store: Any, **others: Any
    ) -> Result:
        """Run a task or a group of tasks if its condition is true."""
        name = task_spec.component_ref.name
        is_group = components[name].WhichOneof("implementation") == "dag"
        if task_spec.trigger_policy.condition and self._run.is_stopping:
            return FAILED
        try:
            if not self._is_triggered(task_spec, components[name], io_store):
                return {}, status.Status.SUCCESS
            task_spec = task_groups.without_missing_inputs(task_spec, io_store)
            if is_group:
                arguments = self._arguments(task_spec.inputs, io_store)
                return self.groups.run_group(name, arguments, components=components, **others)
            result: Result = self._execute_task(
                task_name=task_name,
                task_spec=task_spec,
                components=components,
                io_store=io_store,
                **others,
            )
            return result
        except Exception as error:  # otherwise the exit handler would not run
            self._run.fail(task_name, str(error))
            return FAILED

    def make_task_arguments(self, task_inputs_spec: Any, io_store: Any) -> Json:
        """Return a task's arguments, with the run's final status for an exit task."""
        arguments = self._arguments(task_inputs_spec, io_store)
        for name, spec in task_inputs_spec.parameters.items():
            if spec.HasField("task_final_status"):
                arguments[name] = self._final_status(arguments[name])
        if self._run.current:
            # kfp.local refuses None for an optional parameter; without the argument it is optional.
            arguments = {name: value for name, value in arguments.items() if value is not None}
            self._run.current.inputs = arguments
        return arguments

    def resolve_placeholder(self, element: str, **others: Any) -> str:
        """Resolve placeholders of the run and of kfp.local, also within values."""

        def resolve_one(placeholder: str) -> str:
            if placeholder == placeholders.EXECUTOR_INPUT:
                return json.dumps(others["executor_input_dict"])
            filled = self._placeholders.get(placeholder)
            try:
                return self._resolve(placeholder, **others) if filled is None else filled
            except IndexError:
                raise ValueError(f"{element!r} has an unknown placeholder") from None

        return placeholders.resolve(element, resolve_one)

    def task_resource_name(self, component_name: str) -> str:
        """Return the name of a task's output folder, and the value of its name placeholder."""
        task = self._run.current
        return task.unique_name if task else component_name

    def executor_input_to_dict(self, executor_input: Any, component_spec: Any) -> Json:
        """Return a task's inputs as JSON, with whole numbers as int; keep them for the journal."""
        found: Json = self._to_dict(executor_input, component_spec)
        values = found.get("inputs", {}).get("parameterValues", {})
        values.update(task_groups.convert_strings(component_spec, values))
        declared = component_spec.input_definitions.parameters
        for name, value in values.items():
            if name not in declared or declared[name].parameter_type != NUMBER_DOUBLE:
                values[name] = placeholders.whole(value)
        for given in found.get("inputs", {}).get("artifacts", {}).values():
            given["artifacts"] = [placeholders.whole(one) for one in given.get("artifacts", [])]
        if self._run.current:
            self._run.current.parameters = values  # kfp.local resolves their placeholders in place
        return found

    def _is_triggered(self, task_spec: Any, component: Any, io_store: Any) -> bool:
        condition = task_spec.trigger_policy.condition
        if not condition:
            return True
        try:
            values = self._make_arguments(task_spec.inputs, io_store)
        except ValueError as error:
            raise ConditionError(f"condition `{condition}` cannot be evaluated: {error}") from None
        return evaluate(condition, task_groups.convert_strings(component, values))

    def _arguments(self, task_inputs_spec: Any, io_store: Any) -> Json:
        """Return a task's arguments with placeholders resolved, for the cache key."""
        found: Json = self._make_arguments(task_inputs_spec, io_store)
        fill = placeholders.fill_inputs
        return {name: fill(value, found, self._placeholders) for name, value in found.items()}

    def _final_status(self, found: Json) -> Json:
        """Return the final status for an exit task; no `error` after a success, as on Vertex AI."""
        state = found["state"]
        if self._run.is_cancelled and state != "SUCCEEDED":
            state = "CANCELLED"
        final: Json = {
            "state": state,
            "pipeline_job_resource_name": self._run.name,
            "pipeline_task_name": found["pipeline_task_name"],
        }
        if state != "SUCCEEDED":
            message = self._run.error_message().replace("{{$", "{{ $")  # must not be resolved
            code = "CANCELLED" if state == "CANCELLED" else "FAILED_PRECONDITION"
            final["error"] = rpc_status(code, message)
        return final


def _true(condition: str, io_store: Any) -> bool:
    """Return True: `execute_task` evaluates conditions, and an error there fails the task."""
    return True


def _outputs_of(end: Json, component: Any) -> Json:
    """Return the outputs in a `task_ended` event."""
    outputs: Json = {**end["outputs"]}
    for name, found in end["output_artifacts"].items():
        made = [
            create_artifact_instance(
                {**one, "name": one["displayName"], "type": {"schemaTitle": one["schemaTitle"]}}
            )
            for one in found
        ]
        is_list = component.output_definitions.artifacts[name].is_artifact_list
        outputs[name] = made if is_list else made[0]
    return outputs


def _touch_metadata_artifacts(outputs: Json) -> None:
    for value in outputs.values():
        if getattr(value, "schema_title", "") in METADATA_ONLY and value.uri.startswith("/"):
            Path(value.uri).touch()
