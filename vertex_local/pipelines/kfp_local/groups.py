"""Inputs and outputs of groups of tasks: loops, conditions and pipelines in a pipeline.

kfp.local guesses them from names, and looks in the groups around for what a group lacks. Here they
are what the specification says, as on Vertex AI.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kfp.local import executor_output_utils
from kfp.local.orchestrator import enhanced_dag_orchestrator
from kfp.local.status import Status
from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType

from vertex_local.json_types import Json
from vertex_local.pipelines import placeholders
from vertex_local.pipelines.run_state import PipelineRun

Result = tuple[Json, Any]

STRING = ParameterType.ParameterTypeEnum.STRING
MAX_PARALLEL = 2  # iterations of a loop at once, as kfp.local has it
RUNS_ALWAYS = 2  # TriggerPolicy.TriggerStrategy.ALL_UPSTREAM_TASKS_COMPLETED


class Groups:
    """Runs the groups of one pipeline run; `arguments_of` takes a task's inputs and an IOStore."""

    def __init__(self, run: PipelineRun, arguments_of: Callable[[Any, Any], Json]) -> None:
        self._run = run
        self._arguments_of = arguments_of

    def run_group(self, name: str, arguments: Json, *, components: Json, **others: Any) -> Result:
        """Runs the tasks of the group that a component is; inputs not given have their defaults."""
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
                dag_arguments=with_texts(component, {**absent, **defaults, **arguments}),
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
        """Runs the iterations of a loop; returns whether it has failed."""
        name = task_spec.component_ref.name

        def iterate(number: int, arguments: Json) -> Result:
            iteration = f"{task_name}-iteration-{number}"
            place = f"{pipeline_resource_name}/{iteration}"
            try:
                return self.run_group(
                    name,
                    arguments,
                    components=components,
                    pipeline_resource_name=place,
                    **others,
                )
            except Exception as error:  # raised any further, the exit handler would not run
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


def with_texts(component: Any, arguments: Json) -> Json:
    """Return the arguments, with texts for the parameters that the component declares as such.

    The compiler declares so the fields of a loop's items, numbers among them.
    """
    texts = {
        name: placeholders.as_text(arguments[name])
        for name, one in component.input_definitions.parameters.items()
        if one.parameter_type == STRING and arguments.get(name) is not None
    }
    return {**arguments, **texts}


def outputs_of(dag_outputs_spec: Any, io_store: Any) -> Json:
    """Return the outputs of a group; those of tasks whose condition did not hold are left out."""
    outputs: Json = {}
    for name, selector in dag_outputs_spec.parameters.items():
        sources = (
            selector.value_from_oneof.parameter_selectors
            if selector.WhichOneof("kind") == "value_from_oneof"
            else [selector.value_from_parameter]
        )
        keys = [(one.producer_subtask, one.output_parameter_key) for one in sources]
        outputs |= _first_made(name, keys, io_store)
    for name, selector in dag_outputs_spec.artifacts.items():
        keys = [
            (one.producer_subtask, one.output_artifact_key) for one in selector.artifact_selectors
        ]
        outputs |= _first_made(name, keys, io_store)
    return outputs


def without_missing_inputs(task_spec: Any, io_store: Any) -> Any:
    """Return a task that runs whatever became of those before it, without what they did not make.

    The inputs that are left out have their defaults: the compiler demands one for each.
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
                if not _first_made(name, [key], io_store):
                    del field[name]
    return copy


def _loop_items(task_spec: Any, arguments: Json) -> tuple[str, list[Any]]:
    """Return the input that receives the items of a loop, and the items."""
    if task_spec.WhichOneof("iterator") == "artifact_iterator":
        iterator = task_spec.artifact_iterator
        items = arguments[iterator.items.input_artifact]
    else:
        iterator = task_spec.parameter_iterator
        kind = iterator.items.WhichOneof("kind")
        items = iterator.items.raw if kind == "raw" else arguments[iterator.items.input_parameter]
        items = json.loads(items) if isinstance(items, str) else items
    if not isinstance(items, list):
        raise ValueError(f"a loop needs a list of items, and {items!r} is none")
    return iterator.item_input, items


def _run_iterations(
    task_spec: Any, arguments: Json, iterate: Callable[[int, Json], Result]
) -> list[Result]:
    """Run a loop's iterations, some at a time; `iterate` takes their number and arguments."""
    item_input, items = _loop_items(task_spec, arguments)
    limit = task_spec.iterator_policy.parallelism_limit or MAX_PARALLEL
    with ThreadPoolExecutor(max_workers=min(limit, MAX_PARALLEL)) as pool:
        each = [{**arguments, item_input: item} for item in items]
        return list(pool.map(iterate, range(len(each)), each))


def _collected(component: Any, results: list[Result]) -> Json:
    """Return the outputs of a loop: lists of what its iterations have put out, in order.

    An iteration whose condition did not hold adds nothing. Artifacts of loops in loops are one
    list, for there are no lists of lists of artifacts.
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
        name: [one for value in found for one in _listed(value)]
        for name, found in artifacts.items()
    }
    return {**parameters, **flat}


def _first_made(name: str, keys: list[tuple[str, str]], io_store: Any) -> Json:
    """Return the output under `name`, or nothing if no task has made it."""
    for producer, key in keys:
        try:
            return {name: io_store.get_task_output(producer, key)}
        except ValueError:
            continue
    return {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
