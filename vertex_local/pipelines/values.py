"""Inputs and outputs of tasks and groups of tasks, as the specification of a pipeline has them."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vertex_local import Json
from vertex_local.pipelines import placeholders

FIELD = re.compile(r'\["([^"]*)"\]')


@dataclass(frozen=True)
class Values:
    """Inputs or outputs of a task; what is optional and has no value is missing.

    Attributes:
        parameters: Values by name.
        artifacts: RuntimeArtifacts (`name`, `uri`, `type`, `metadata`) by name, each in a list.
    """

    parameters: Json = field(default_factory=dict)
    artifacts: dict[str, list[Json]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """End of a task, or of a group of tasks; one whose condition was false is a success."""

    is_success: bool
    outputs: Values = field(default_factory=Values)


def inputs_of(
    task: Json, graph: Values, upstream: Mapping[str, Result], run_values: dict[str, str]
) -> Values:
    """Return the inputs of a task, from those of its graph and the results of other tasks.

    Constants have values in the place of the run's placeholders and of those of other inputs. A
    final status is missing. A task that `runs_always` lacks the inputs that do not exist.

    Raises:
        ValueError: An input is the output of a task that has not made it.
    """
    parameters: Json = {}
    artifacts: dict[str, list[Json]] = {}
    spec = task.get("inputs", {})
    for name, source in spec.get("parameters", {}).items():
        if "runtimeValue" in source:
            parameters[name] = source["runtimeValue"].get("constant")
        elif output := source.get("taskOutputParameter"):
            made = upstream[output["producerTask"]].outputs.parameters
            parameters |= _output(name, made, output["outputParameterKey"], task)
        elif (outer := source.get("componentInputParameter")) in graph.parameters:
            selector = source.get("parameterExpressionSelector", "")
            parameters[name] = _select(graph.parameters[outer], selector)
    for name, source in spec.get("artifacts", {}).items():
        if output := source.get("taskOutputArtifact"):
            made_files = upstream[output["producerTask"]].outputs.artifacts
            artifacts |= _output(name, made_files, output["outputArtifactKey"], task)
        elif (outer := source.get("componentInputArtifact")) in graph.artifacts:
            artifacts[name] = graph.artifacts[outer]
    for name in constants(task) & set(parameters):
        parameters[name] = placeholders.fill_inputs(parameters[name], parameters, run_values)
    return Values({name: one for name, one in parameters.items() if one is not None}, artifacts)


def constants(task: Json) -> set[str]:
    """Return the parameters of a task that are constants of the pipeline."""
    parameters = task.get("inputs", {}).get("parameters", {})
    return {name for name, source in parameters.items() if "runtimeValue" in source}


def _output(name: str, made: Mapping[str, Any], key: str, task: Json) -> Json:
    """Return the input with the value of an output of another task."""
    if key in made:
        return {name: made[key]}
    if runs_always(task):
        return {}
    raise ValueError(f"its input {name!r} has no value: the task before it has no output {key!r}")


def runs_always(task: Json) -> bool:
    """Return whether a task also runs after a failure: `.ignore_upstream_failure()`, exit tasks."""
    strategy: str = task.get("triggerPolicy", {}).get("strategy", "")
    return strategy == "ALL_UPSTREAM_TASKS_COMPLETED"


def _select(value: Any, selector: str) -> Any:
    """Return a part of a loop's item, by a selector such as `parseJson(string_value)["label"]`."""
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
    return {name: one["defaultValue"] for name, one in declared.items() if "defaultValue" in one}


def typed(component: Json, inputs: Values) -> Values:
    """Return the inputs of a component, with parameters of its types.

    The compiler declares all fields of a loop's items as STRING, numbers included.
    """
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    parameters = {
        name: typed_value(name, value, declared.get(name, {}).get("parameterType", ""))
        for name, value in inputs.parameters.items()
    }
    return Values(parameters, inputs.artifacts)


def typed_value(name: str, value: Any, kind: str) -> Any:
    """Return a parameter's value as its type; protobuf's JSON has doubles for whole numbers.

    Raises:
        ValueError: It is of another type.
    """
    if kind == "STRING":
        return placeholders.as_text(value)
    if kind not in ("NUMBER_INTEGER", "NUMBER_DOUBLE"):
        return placeholders.whole(value)
    try:
        return int(value) if kind == "NUMBER_INTEGER" else float(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{name!r} is {value!r}, which is no {kind}") from None


def loop_items(task: Json, inputs: Values) -> list[Values]:
    """Return the inputs of each iteration of a loop.

    Raises:
        ValueError: The items are not a list.
    """
    if iterator := task.get("artifactIterator"):
        name, source = iterator["itemInput"], iterator["items"]["inputArtifact"]
        files = inputs.artifacts.get(source, [])
        return [Values(inputs.parameters, {**inputs.artifacts, name: [one]}) for one in files]
    iterator = task["parameterIterator"]
    name, source = iterator["itemInput"], iterator["items"]
    items = source["raw"] if "raw" in source else inputs.parameters.get(source["inputParameter"])
    items = json.loads(items) if isinstance(items, str) else items
    if not isinstance(items, list):
        raise ValueError(f"the items of a loop must be a list, not {items!r}")
    return [Values({**inputs.parameters, name: item}, inputs.artifacts) for item in items]


def collected(component: Json, outputs: list[Values]) -> Values:
    """Return the outputs of a loop: lists of the outputs of its iterations, in order.

    An iteration whose condition was false has no outputs. Artifacts of nested loops are one flat
    list, because a list of lists of artifacts does not exist.
    """
    defined = component.get("outputDefinitions", {})
    return Values(
        {
            name: [one.parameters[name] for one in outputs if name in one.parameters]
            for name in defined.get("parameters", {})
        },
        {
            name: [artifact for one in outputs for artifact in one.artifacts.get(name, [])]
            for name in defined.get("artifacts", {})
        },
    )


def outputs_of(component: Json, results: Mapping[str, Result]) -> Values:
    """Return the outputs of a group: of each the first that exists, as `dsl.OneOf` has several."""
    defined = component["dag"].get("outputs", {})
    parameters, artifacts = {}, {}
    for name, selector in defined.get("parameters", {}).items():
        sources = selector.get("valueFromOneof", {}).get("parameterSelectors") or [
            selector["valueFromParameter"]
        ]
        for source in sources:
            made = results[source["producerSubtask"]].outputs.parameters
            if name not in parameters and source["outputParameterKey"] in made:
                parameters[name] = made[source["outputParameterKey"]]
    for name, selector in defined.get("artifacts", {}).items():
        for source in selector["artifactSelectors"]:
            made = results[source["producerSubtask"]].outputs.artifacts
            if name not in artifacts and source["outputArtifactKey"] in made:
                artifacts[name] = made[source["outputArtifactKey"]]
    return Values(parameters, artifacts)


def upstream_of(task: Json) -> set[str]:
    """Return the tasks of the same graph that must end before a task starts."""
    inputs = task.get("inputs", {})
    sources: Iterable[Json] = (
        *inputs.get("parameters", {}).values(),
        *inputs.get("artifacts", {}).values(),
    )
    kinds = ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus")
    producers = {
        source[kind]["producerTask"] for source in sources for kind in kinds if kind in source
    }
    return producers | set(task.get("dependentTasks", []))
