"""Groups of tasks: loops, conditions and nested pipelines.

kfp.local guesses their inputs and outputs from names, and searches the outer groups for missing
ones. Here they are taken from the specification, as on Vertex AI.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kfp.local import executor_output_utils
from kfp.local.orchestrator import enhanced_dag_orchestrator
from kfp.local.status import Status
from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType

from vertex_local import Json
from vertex_local.pipelines import placeholders
from vertex_local.pipelines.run_state import PipelineRun, as_list

Result = tuple[Json, Any]

STRING = ParameterType.ParameterTypeEnum.STRING
MAX_PARALLEL = 2  # iterations of a loop at a time, as in kfp.local
RUNS_ALWAYS = 2  # TriggerPolicy.TriggerStrategy.ALL_UPSTREAM_TASKS_COMPLETED


class TaskGroups:
    """Runner of a pipeline run's groups; `arguments_of` takes a task's inputs and an IOStore."""

    def __init__(self, run: PipelineRun, arguments_of: Callable[[Any, Any], Json]) -> None:
        self._run = run
        self._arguments_of = arguments_of

    def run_group(self, name: str, arguments: Json, *, components: Json, **others: Any) -> Result:
        """Run the tasks of a group; inputs without an argument have their defaults."""
        component = components[name]
        inputs = component.input_definitions
        defaults = {
            name: executor_output_utils.pb2_value_to_python(one.default_value)
            for name, one in inputs.parameters.items()
            if one.HasField("default_value")
        }
        absent: Json = dict.fromkeys([*inputs.parameters, *inputs.artifacts])
        with self._run.in_graph(name):
            result: Result = enhanced_dag_orchestrator.run_enhanced_dag(
                dag_component_spec=component,
                dag_arguments=convert_strings(component, {**absent, **defaults, **arguments}),
                components=components,
                **others,
            )
        return result

    def run_loop(
        self,
        *,
        task_name: str,
        task_spec: Any,
        components: Json,
        io_store: Any,
        pipeline_resource_name: str,
        parallel_executor: Any,
        **others: Any,
    ) -> bool:
        """Run the iterations of a loop; return whether it has failed."""
        name = task_spec.component_ref.name

        def iterate(number: int, arguments: Json) -> Result:
            iteration = f"{task_name}-iteration-{number}"
            try:
                return self.run_group(
                    name,
                    arguments,
                    components=components,
                    pipeline_resource_name=f"{pipeline_resource_name}/{iteration}",
                    **others,
                )
            except Exception as error:  # otherwise the exit handler would not run
                self._run.fail(iteration, str(error))
                return {}, Status.FAILURE

        try:
            arguments = self._arguments_of(task_spec.inputs, io_store)
            results = _run_iterations(task_spec, arguments, iterate)
        except Exception as error:
            self._run.fail(task_name, str(error))
            return True
        if any(outcome != Status.SUCCESS for _, outcome in results):
            return True
        for key, value in _collected(components[name], results).items():
            io_store.put_task_output(task_name, key, value)
        io_store.put_task_status(task_name, "SUCCEEDED")
        return False


def convert_strings(component: Any, arguments: Json) -> Json:
    """Return the arguments, with strings for the parameters that the component declares as STRING.

    The compiler declares all fields of a loop's items as STRING, numbers included.
    """
    strings = {
        name: placeholders.as_text(arguments[name])
        for name, one in component.input_definitions.parameters.items()
        if one.parameter_type == STRING and arguments.get(name) is not None
    }
    return {**arguments, **strings}


def outputs_of(dag_outputs_spec: Any, io_store: Any) -> Json:
    """Return the outputs of a group, without those of tasks whose condition was false."""
    outputs: Json = {}
    for name, selector in dag_outputs_spec.parameters.items():
        sources = (
            selector.value_from_oneof.parameter_selectors
            if selector.WhichOneof("kind") == "value_from_oneof"
            else [selector.value_from_parameter]
        )
        keys = [(one.producer_subtask, one.output_parameter_key) for one in sources]
        outputs |= _first_output(name, keys, io_store)
    for name, selector in dag_outputs_spec.artifacts.items():
        keys = [
            (one.producer_subtask, one.output_artifact_key) for one in selector.artifact_selectors
        ]
        outputs |= _first_output(name, keys, io_store)
    return outputs


def without_missing_inputs(task_spec: Any, io_store: Any) -> Any:
    """Return a task with `.ignore_upstream_failure()` without inputs that do not exist.

    These inputs have defaults: the compiler requires one for each. Other tasks are returned as
    they are.
    """
    if task_spec.trigger_policy.strategy != RUNS_ALWAYS:
        return task_spec
    copy = type(task_spec)()
    copy.CopyFrom(task_spec)
    for field, kind in ((copy.inputs.parameters, "parameter"), (copy.inputs.artifacts, "artifact")):
        for name, one in list(field.items()):
            if one.HasField(f"task_output_{kind}"):
                source = getattr(one, f"task_output_{kind}")
                key = (source.producer_task, getattr(source, f"output_{kind}_key"))
                if not _first_output(name, [key], io_store):
                    del field[name]
    return copy


def _loop_items(task_spec: Any, arguments: Json) -> tuple[str, list[Any]]:
    """Return the name of the input for the items of a loop, and the items."""
    if task_spec.WhichOneof("iterator") == "artifact_iterator":
        iterator = task_spec.artifact_iterator
        items = arguments[iterator.items.input_artifact]
    else:
        iterator = task_spec.parameter_iterator
        kind = iterator.items.WhichOneof("kind")
        items = iterator.items.raw if kind == "raw" else arguments[iterator.items.input_parameter]
        items = json.loads(items) if isinstance(items, str) else items
    if not isinstance(items, list):
        raise ValueError(f"the items of a loop must be a list, not {items!r}")
    return iterator.item_input, items


def _run_iterations(
    task_spec: Any, arguments: Json, iterate: Callable[[int, Json], Result]
) -> list[Result]:
    """Run the iterations of a loop in parallel; `iterate` takes their index and arguments."""
    item_input, items = _loop_items(task_spec, arguments)
    limit = task_spec.iterator_policy.parallelism_limit or MAX_PARALLEL
    with ThreadPoolExecutor(max_workers=min(limit, MAX_PARALLEL)) as pool:
        each = [{**arguments, item_input: item} for item in items]
        return list(pool.map(iterate, range(len(each)), each))


def _collected(component: Any, results: list[Result]) -> Json:
    """Return the outputs of a loop: lists of the outputs of its iterations, in order.

    An iteration whose condition was false has no outputs. Artifacts of nested loops are one flat
    list, because a list of lists of artifacts does not exist.
    """
    outputs = [made for made, _ in results]
    parameters, artifacts = (
        {name: [one[name] for one in outputs if name in one] for name in definitions}
        for definitions in (
            component.output_definitions.parameters,
            component.output_definitions.artifacts,
        )
    )
    flat = {
        name: [one for value in found for one in as_list(value)]
        for name, found in artifacts.items()
    }
    return {**parameters, **flat}


def _first_output(name: str, keys: list[tuple[str, str]], io_store: Any) -> Json:
    """Return `{name: value}` of the first of these outputs that exists, else {}."""
    for producer, key in keys:
        try:
            return {name: io_store.get_task_output(producer, key)}
        except ValueError:
            continue
    return {}
