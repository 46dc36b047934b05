"""Inputs and outputs of tasks and groups of tasks, as the specification of a pipeline has them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vertex_local.rules import Json, placeholders
from vertex_local.rules.placeholders import Unknown

CODE = ("image", "command", "args", "env")  # of a container: a change of it is not in the cache
KINDS = (("parameters", "Parameter"), ("artifacts", "Artifact"))  # in fields of specifications
FIELD = re.compile(r'\["([^"]*)"\]')


@dataclass(frozen=True)
class TaskValues:
    """Inputs or outputs of a task by name; what is optional and has no value is missing.

    Each of `artifacts` is a list of RuntimeArtifacts (`name`, `uri`, `type`, `metadata`); before a
    run, a tuple of URIs.
    """

    parameters: Json = field(default_factory=dict)
    artifacts: Json = field(default_factory=dict)

    @property
    def unknown(self) -> list[str]:
        """The tasks whose outputs are needed and not known."""
        values = (*self.parameters.values(), *self.artifacts.values())
        return list(dict.fromkeys(value.task for value in values if isinstance(value, Unknown)))


class Foreseen(dict[str, Any]):
    """Outputs of a task that has not run: those that are not foreseen are Unknown."""

    def __init__(self, task: str, outputs: Mapping[str, Any] | None = None) -> None:
        super().__init__(outputs or {})
        self._task = task

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Unknown:
        return Unknown(self._task)


@dataclass(frozen=True)
class Result:
    """End of a task, or of a group of tasks; one whose condition was false is a success."""

    is_success: bool
    outputs: TaskValues = field(default_factory=TaskValues)


def inputs_of(
    task: Json, graph: TaskValues, upstream: Mapping[str, Result], run_values: dict[str, str]
) -> TaskValues:
    """Return the inputs of a task, from its graph's inputs and the results of other tasks.

    Constants have values in the place of placeholders, the run's and those for other inputs. A
    final status is missing. A task that `runs_always` lacks the inputs that do not exist.

    Raises:
        ValueError: An input is the output of a task that has not made it.
    """
    inputs = TaskValues()
    for kind, word in KINDS:
        values, outer = getattr(inputs, kind), getattr(graph, kind)
        for name, source in task.get("inputs", {}).get(kind, {}).items():
            if output := source.get(f"taskOutput{word}"):
                outputs = getattr(upstream[output["producerTask"]].outputs, kind)
                key = output[f"output{word}Key"]
                if key in outputs:
                    values[name] = outputs[key]
                elif not runs_always(task):
                    raise ValueError(
                        f"its input {name!r} has no value: {output['producerTask']} has no output "
                        f"{key!r}"
                    )
            elif source.get(f"componentInput{word}") in outer:
                value = outer[source[f"componentInput{word}"]]
                values[name] = _select(value, source.get("parameterExpressionSelector", ""))
            elif (value := source.get("runtimeValue", {}).get("constant")) is not None:
                values[name] = value
    for name in constants(task) & inputs.parameters.keys():
        value = placeholders.fill_inputs(inputs.parameters[name], inputs.parameters, run_values)
        inputs.parameters[name] = value
    return inputs


def constants(task: Json) -> set[str]:
    """Return the parameters of a task that are constants of the pipeline."""
    parameters = task.get("inputs", {}).get("parameters", {})
    return {name for name, source in parameters.items() if "runtimeValue" in source}


def runs_always(task: Json) -> bool:
    """Return whether a task also runs after a failure: `.ignore_upstream_failure()`, exit tasks."""
    strategy: str = task.get("triggerPolicy", {}).get("strategy", "")
    return strategy == "ALL_UPSTREAM_TASKS_COMPLETED"


def _select(value: Any, selector: str) -> Any:
    """Return a part of a loop's item, by a selector such as `parseJson(string_value)["label"]`."""
    if isinstance(value, Unknown):
        return value
    if selector and isinstance(value, str):
        value = json.loads(value)
    for key in FIELD.findall(selector):
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"the loop's item {value!r} has no field {key!r}")
        value = value[key]
    return value


def defaults_of(component: Json) -> Json:
    """Return the defaults of a component's parameters."""
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    return {
        name: definition["defaultValue"]
        for name, definition in declared.items()
        if "defaultValue" in definition
    }


def typed(component: Json, inputs: TaskValues) -> TaskValues:
    """Return the inputs of a component, with parameters of its types.

    The compiler declares all fields of a loop's items as STRING, numbers included.
    """
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    parameters = {
        name: typed_value(name, value, declared.get(name, {}).get("parameterType", ""))
        for name, value in inputs.parameters.items()
    }
    return TaskValues(parameters, inputs.artifacts)


def typed_value(name: str, value: Any, kind: str) -> Any:
    """Return a parameter's value as its type; protobuf's JSON has doubles for whole numbers.

    Raises:
        ValueError: It is of another type.
    """
    if isinstance(value, Unknown):
        return value
    if kind == "STRING":
        return placeholders.as_text(value)
    if kind not in ("NUMBER_INTEGER", "NUMBER_DOUBLE"):
        return placeholders.whole(value)
    try:
        return int(value) if kind == "NUMBER_INTEGER" else float(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{name!r} is {value!r}, which is no {kind}") from None


def loop_items(task: Json, inputs: TaskValues) -> list[TaskValues]:
    """Return the inputs of each iteration of a loop.

    Raises:
        ValueError: The items are not a list.
    """
    if iterator := task.get("artifactIterator"):
        name, source = iterator["itemInput"], iterator["items"]["inputArtifact"]
        artifacts = inputs.artifacts.get(source, [])
        return [
            TaskValues(inputs.parameters, {**inputs.artifacts, name: [item]}) for item in artifacts
        ]
    iterator = task["parameterIterator"]
    name, source = iterator["itemInput"], iterator["items"]
    items = source["raw"] if "raw" in source else inputs.parameters.get(source["inputParameter"])
    items = json.loads(items) if isinstance(items, str) else items
    if not isinstance(items, list):
        raise ValueError(f"the items of a loop must be a list, not {items!r}")
    return [TaskValues({**inputs.parameters, name: item}, inputs.artifacts) for item in items]


def collected(component: Json, outputs: list[TaskValues]) -> TaskValues:
    """Return the outputs of a loop: lists of the outputs of its iterations, in order.

    An iteration whose condition was false has no outputs. Artifacts of nested loops are one flat
    list, because a list of lists of artifacts does not exist.
    """
    defined = component.get("outputDefinitions", {})
    return TaskValues(
        {
            name: [each.parameters[name] for each in outputs if name in each.parameters]
            for name in defined.get("parameters", {})
        },
        {
            name: [artifact for each in outputs for artifact in each.artifacts.get(name, [])]
            for name in defined.get("artifacts", {})
        },
    )


def outputs_of(component: Json, results: Mapping[str, Result]) -> TaskValues:
    """Return the outputs of a group: of each the first that exists, as `dsl.OneOf` has several."""
    outputs = TaskValues()
    for kind, word in KINDS:
        for name, selector in component["dag"].get("outputs", {}).get(kind, {}).items():
            choice = selector.get("valueFromOneof", selector)
            sources = choice.get(f"{word.lower()}Selectors") or [choice["valueFromParameter"]]
            for source in sources:
                values = getattr(results[source["producerSubtask"]].outputs, kind)
                if (key := source[f"output{word}Key"]) in values:
                    getattr(outputs, kind).setdefault(name, values[key])
    return outputs


def upstream_of(task: Json) -> set[str]:
    """Return the tasks of the same graph that must end before a task starts."""
    inputs = task.get("inputs", {})
    sources = [source for kind, _ in KINDS for source in inputs.get(kind, {}).values()]
    details = [detail for source in sources for detail in source.values()]
    producers = {detail["producerTask"] for detail in details if "producerTask" in detail}
    return producers | set(task.get("dependentTasks", []))
