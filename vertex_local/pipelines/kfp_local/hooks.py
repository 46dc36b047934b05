"""The places where kfp.local must do what it does not offer; all of them are here.

kfp.local has no callbacks, so attributes of its modules are replaced. Each replacement checks that
what it replaces is there and takes the arguments it took in kfp 2.17.0, and says so if not.

| replaced                                   | because |
|--------------------------------------------|---|
| task_executor.execute_single_task          | the journal; an exception must not skip exit tasks |
| enhanced_dag_orchestrator.execute_task     | conditions, strictly; the same for groups of tasks |
| enhanced_dag_orchestrator._run_parallel_…  | it takes a loop's items and inputs from their names |
| OrchestratorUtils.get_dag_outputs          | OneOf of artifacts; what a condition left out |
| ConditionEvaluator.evaluate_condition      | it takes what it cannot evaluate for false |
| OrchestratorUtils.make_task_arguments      | the exit task's final status, with the run's name |
| SubprocessTaskHandler                      | GCPC operations; steps that can be ended |
| placeholder_utils.resolve_individual_…     | the run's own placeholders |
| executor_input_utils.get_local_task_…      | two tasks of one component shared an output folder |
| executor_input_utils.executor_input_to_…    | 3 in a structure or in a text became 3.0 |
| LocalCache.get, put, …                     | a model that is yet to be trained missed its plan |
| task_executor.time                         | a cancel must end the pause before a retry |
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

from vertex_local.json_types import Json
from vertex_local.pipelines import placeholders
from vertex_local.pipelines.kfp_local import groups
from vertex_local.pipelines.kfp_local.conditions import ConditionError, evaluate
from vertex_local.pipelines.kfp_local.replacing import replace
from vertex_local.pipelines.kfp_local.step_cache import StepCache
from vertex_local.pipelines.run_state import PipelineRun
from vertex_local.pipelines.spec import leaf_key

Result = tuple[Json, Any]

FAILED: Result = ({}, status.Status.FAILURE)
NUMBER_DOUBLE = pipeline_spec_pb2.ParameterType.ParameterTypeEnum.NUMBER_DOUBLE
# Their content is metadata; kfp.local's cache wants a file, which Vertex AI's does not.
METADATA_ONLY = {
    "system.Metrics",
    "system.ClassificationMetrics",
    "system.SlicedClassificationMetrics",
}


def install(
    run: PipelineRun,
    *,
    run_placeholders: dict[str, str],
    handler: type,
    is_written: Callable[[Path], bool],
) -> None:
    """Puts every replacement in place, for the one run of this process.

    `is_written` says whether a job that goes on writes to a folder.
    """
    step_cache = _install_cache(is_written)
    hooks = Hooks(run, run_placeholders, step_cache)
    evaluator = enhanced_dag_orchestrator.ConditionEvaluator
    utils = orchestrator_utils.OrchestratorUtils
    replace(task_executor, "execute_single_task", hooks.execute_single_task)
    replace(enhanced_dag_orchestrator, "execute_task", hooks.execute_task)
    replace(enhanced_dag_orchestrator, "_run_parallel_for_task", hooks.groups.run_loop)
    replace(evaluator, "evaluate_condition", staticmethod(_true), takes=("condition", "io_store"))
    replace(utils, "make_task_arguments", hooks.make_task_arguments)
    outputs_of = staticmethod(groups.outputs_of)
    replace(utils, "get_dag_outputs", outputs_of, takes=("dag_outputs_spec", "io_store"))
    replace(subprocess_task_handler, "SubprocessTaskHandler", handler)
    replace(placeholder_utils, "resolve_individual_placeholder", hooks.resolve_placeholder)
    replace(executor_input_utils, "get_local_task_resource_name", hooks.task_resource_name)
    replace(executor_input_utils, "executor_input_to_dict", hooks.executor_input_to_dict)
    replace(task_executor, "time", SimpleNamespace(sleep=run.sleep), takes=())
    replace(logging_utils, "color_text", lambda text, color: text, takes=("text", "color"))


def _install_cache(is_written: Callable[[Path], bool]) -> StepCache:
    """Replaces the methods of kfp.local's cache."""
    local_cache = cache.LocalCache
    ours = StepCache(local_cache, is_written=is_written)

    def get(self: Any, key: str) -> Json | None:
        return ours.get(self, key)

    def put(self: Any, key: str, outputs: Json) -> None:
        _touch_metadata_artifacts(outputs)
        ours.put(self, key, outputs)

    replace(local_cache, "get", get)
    replace(local_cache, "put", put)
    serialize, deserialize = ours.serialize_artifact, ours.deserialize_artifact
    replace(local_cache, "_serialize_artifact", staticmethod(serialize), takes=("artifact",))
    replace(local_cache, "_deserialize_artifact", staticmethod(deserialize), takes=("data",))
    return ours


class Hooks:
    """The replacements that need the run; `original` are the functions they replace."""

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
        self.groups = groups.Groups(run, self._arguments)

    def execute_single_task(
        self, task_name: str, task_spec: Any, components: Json, executors: Json, **others: Any
    ) -> Result:
        """Runs and journals a task that does something itself."""
        component = components[task_spec.component_ref.name]
        executor = executors[component.executor_label]

        key, scope = leaf_key(self._run.graph, task_name), others["pipeline_resource_name"]
        if end := self._run.earlier_success(key, scope=scope):
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
            self._step_cache.settle()
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
        """Runs a task or a group of tasks, if its condition holds."""
        name = task_spec.component_ref.name
        is_group = components[name].WhichOneof("implementation") == "dag"
        if task_spec.trigger_policy.condition and self._run.is_ending:
            return FAILED
        try:
            if not self._holds(task_spec, components[name], io_store):
                return {}, status.Status.SUCCESS
            task_spec = groups.without_missing_inputs(task_spec, io_store)
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
        except Exception as error:  # raised any further, the exit handler would not run
            self._run.fail(task_name, str(error))
            return FAILED

    def make_task_arguments(self, task_inputs_spec: Any, io_store: Any) -> Json:
        """A task's arguments, with the true final status for an exit task."""
        arguments = self._arguments(task_inputs_spec, io_store)
        for name, spec in task_inputs_spec.parameters.items():
            if spec.HasField("task_final_status"):
                arguments[name] = self._final_status(arguments[name])
        if self._run.current:
            # kfp.local refuses None where a parameter is optional; left out, it is what is meant.
            arguments = {name: value for name, value in arguments.items() if value is not None}
            self._run.current.inputs = arguments
        return arguments

    def resolve_placeholder(self, element: str, **others: Any) -> str:
        """Fills the run's placeholders, kfp.local's, and those inside filled-in structures."""

        def resolve_one(placeholder: str) -> str:
            if placeholder == placeholders.EXECUTOR_INPUT:
                return json.dumps(others["executor_input_dict"])
            filled = self._placeholders.get(placeholder)
            try:
                return self._resolve(placeholder, **others) if filled is None else filled
            except IndexError:
                raise ValueError(f"{element!r} has a placeholder this service lacks") from None

        return placeholders.resolve(element, resolve_one)

    def task_resource_name(self, component_name: str) -> str:
        """The name of a task's output folder, and of its placeholder."""
        task = self._run.current
        return task.unique_name if task else component_name

    def executor_input_to_dict(self, executor_input: Any, component_spec: Any) -> Json:
        """A task's inputs as JSON, with whole numbers as such; kept for the journal."""
        found: Json = self._to_dict(executor_input, component_spec)
        values = found.get("inputs", {}).get("parameterValues", {})
        values.update(groups.with_texts(component_spec, values))
        declared = component_spec.input_definitions.parameters
        for name, value in values.items():
            if name not in declared or declared[name].parameter_type != NUMBER_DOUBLE:
                values[name] = placeholders.whole(value)
        for given in found.get("inputs", {}).get("artifacts", {}).values():
            given["artifacts"] = [placeholders.whole(one) for one in given.get("artifacts", [])]
        if self._run.current:
            self._run.current.parameters = values  # kfp.local fills their placeholders in place
        return found

    def _holds(self, task_spec: Any, component: Any, io_store: Any) -> bool:
        condition = task_spec.trigger_policy.condition
        if not condition:
            return True
        try:
            values = self._make_arguments(task_spec.inputs, io_store)
        except ValueError as error:
            raise ConditionError(f"condition `{condition}` cannot be evaluated: {error}") from None
        return evaluate(condition, groups.with_texts(component, values))

    def _arguments(self, task_inputs_spec: Any, io_store: Any) -> Json:
        """A task's arguments with their texts filled, so that the cache's key covers them."""
        found: Json = self._make_arguments(task_inputs_spec, io_store)
        fill = placeholders.fill_inputs
        return {name: fill(value, found, self._placeholders) for name, value in found.items()}

    def _final_status(self, found: Json) -> Json:
        """What an exit task receives; without `error` after a success, as on Vertex AI."""
        state = found["state"]
        if self._run.is_cancelled and state != "SUCCEEDED":
            state = "CANCELLED"
        final: Json = {
            "state": state,
            "pipeline_job_resource_name": self._run.name,
            "pipeline_task_name": found["pipeline_task_name"],
        }
        if state != "SUCCEEDED":
            message = self._run.error_message().replace("{{$", "{{ $")  # not a placeholder
            final["error"] = {"code": 1 if state == "CANCELLED" else 9, "message": message}
        return final


def _true(condition: str, io_store: Any) -> bool:
    """`execute_task` decides: there an error can fail the task."""
    return True


def _outputs_of(end: Json, component: Any) -> Json:
    """The outputs that a task's end in the journal tells."""
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
