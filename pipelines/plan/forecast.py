"""Forecast of a run's tasks: which will run, and which take their outputs from the cache.

The graph is followed as the service follows it. A task whose inputs are known, and which an earlier
run has executed with the same component, container and inputs, is cached, and its outputs are known
as well; the outputs of the others are not.
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from components.shared.vertex.task_details import in_order
from pipelines.plan.earlier_tasks import EarlierTask, EarlierTasks, container_of
from trainer import Json

RUNS, CACHED, DEPENDS, SKIPPED = "runs", "cached", "depends", "skipped"
CONDITION = re.compile(r"inputs\.parameter_values\['([^']+)'\] (==|!=) '([^']*)'")
PLACEHOLDER = "{{$"  # filled in by the service: of the project, the location or the run
INPUT = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")


class Unknown:
    """A value that only the run will know; `task` is the one that will give it."""

    def __init__(self, task: str = "") -> None:
        self.task = task


@dataclass(frozen=True)
class Values:
    """Inputs or outputs of a task: parameters, and the URIs of artifacts; some are Unknown."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unknown(self) -> list[str]:
        """The tasks whose outputs are needed and not known."""
        values = (*self.parameters.values(), *self.artifacts.values())
        return list(dict.fromkeys(value.task for value in values if isinstance(value, Unknown)))


@dataclass(frozen=True)
class Fate:
    """State of the tasks of a group: RUNS, DEPENDS or SKIPPED by the name of its condition."""

    state: str
    condition: str = ""


@dataclass(frozen=True, kw_only=True)
class TaskForecast:
    """Forecast of one task: it RUNS, is CACHED, DEPENDS on an outcome of the run, or is SKIPPED.

    `task` is its name in the specification, `name` the displayed one. `condition` is the group of
    tasks that decides if it DEPENDS or is SKIPPED; `earlier` the task whose outputs it takes, else
    the newest one of its name.
    """

    task: str
    name: str
    state: str
    can_be_cached: bool
    condition: str
    inputs: Values
    component: Json
    container: Json
    earlier: EarlierTask | None


def forecast(
    spec: Json,
    parameters: Json,
    earlier: EarlierTasks,
    *,
    outputs: Mapping[str, Callable[[Values], Json | None]] | None = None,
) -> list[TaskForecast]:
    """Return the forecast of each task, in the graph's order.

    `outputs` has functions by the display names of tasks: each returns the output parameters that
    its task will have for its inputs, None if they cannot be foreseen.
    """
    definitions = spec["root"].get("inputDefinitions", {})
    values = Values({**_defaults(definitions), **parameters})
    return _Walk(spec, earlier, outputs or {}).graph(spec["root"]["dag"], values, Fate(RUNS))


class _Walk:
    def __init__(
        self,
        spec: Json,
        earlier: EarlierTasks,
        outputs: Mapping[str, Callable[[Values], Json | None]],
    ) -> None:
        self._spec, self._earlier, self._foreseen = spec, earlier, outputs

    def graph(self, dag: Json, inputs: Values, outer: Fate) -> list[TaskForecast]:
        forecasts: list[TaskForecast] = []
        outputs: dict[str, Values | None] = {}
        for name, task in in_order(dag["tasks"]):
            component = self._spec["components"][task["componentRef"]["name"]]
            values = _inputs(task, component, inputs, outputs)
            title = task.get("taskInfo", {}).get("name", name)
            decides = task.get("triggerPolicy", {}).get("condition", "")
            holds = _holds(decides, values) if decides and outer.state != SKIPPED else True
            fate = outer if holds else Fate(DEPENDS if holds is None else SKIPPED, title)
            if "dag" in component:
                forecasts += self.graph(component["dag"], values, fate)
                outputs[name] = None
                continue
            forecasts.append(self._task(name, task, values, fate))
            outputs[name] = self._outputs(forecasts[-1])
        return forecasts

    def _task(self, name: str, task: Json, inputs: Values, fate: Fate) -> TaskForecast:
        component = self._spec["components"][task["componentRef"]["name"]]
        container = container_of(self._spec, component)
        state, earlier = fate.state, None
        can_be_cached = bool(task.get("cachingOptions", {}).get("enableCache"))
        if state == RUNS and can_be_cached and not inputs.unknown:
            earlier = self._same(name, component, container, inputs)
            state = CACHED if earlier else RUNS
        return TaskForecast(
            task=name,
            name=task.get("taskInfo", {}).get("name", name),
            state=state,
            can_be_cached=can_be_cached,
            condition=fate.condition,
            inputs=inputs,
            component=component,
            container=container,
            earlier=earlier or next(self._earlier.of(name), None),
        )

    def _same(
        self, name: str, component: Json, container: Json, inputs: Values
    ) -> EarlierTask | None:
        for task in self._earlier.of(name):
            is_same = (task.component, task.container) == (component, container)
            if is_same and has_inputs(task, inputs) and self._earlier.is_reusable(task):
                return task
        return None

    def _outputs(self, task: TaskForecast) -> Values | None:
        if task.state == CACHED and task.earlier:
            return Values(task.earlier.output_parameters, task.earlier.output_artifacts)
        if task.state == RUNS and task.name in self._foreseen:
            foreseen = self._foreseen[task.name](task.inputs)
            return None if foreseen is None else Values(foreseen)
        return None


def has_inputs(task: EarlierTask, inputs: Values) -> bool:
    """Return whether an earlier task had these inputs; the service fills in placeholders."""
    known = {name: value for name, value in inputs.parameters.items() if not _is_filled(value)}
    before = {name: value for name, value in task.parameters.items() if name in known}
    return before == known and task.artifacts == dict(inputs.artifacts)


def _is_filled(value: Any) -> bool:
    return isinstance(value, str) and PLACEHOLDER in value


def _inputs(
    task: Json, component: Json, outer: Values, outputs: Mapping[str, Values | None]
) -> Values:
    """Return the inputs of a task: constants, inputs of its graph, and outputs of its siblings."""
    inputs = task.get("inputs", {})
    parameters = _defaults(component.get("inputDefinitions", {}))
    for name, source in inputs.get("parameters", {}).items():
        match source:
            case {"runtimeValue": {"constant": value}}:
                parameters[name] = value
            case {"componentInputParameter": key}:
                parameters[name] = outer.parameters.get(key)
            case {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": key}}:
                known = outputs[producer] or Values()
                parameters[name] = known.parameters.get(key, Unknown(producer))
            case _:
                parameters[name] = Unknown()
    parameters = {name: _filled(value, parameters) for name, value in parameters.items()}
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    parameters = {name: value for name, value in parameters.items() if name in declared}
    artifacts: dict[str, Any] = {}
    for name, source in inputs.get("artifacts", {}).items():
        match source:
            case {"componentInputArtifact": key}:
                artifacts[name] = outer.artifacts.get(key)
            case {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": key}}:
                known = outputs[producer] or Values()
                artifacts[name] = known.artifacts.get(key, Unknown(producer))
            case _:
                artifacts[name] = Unknown()
    return Values(parameters, artifacts)


def _filled(value: Any, parameters: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    names = INPUT.findall(value)
    if unknown := [n for n in names if isinstance(parameters.get(n), Unknown)]:
        return parameters[unknown[0]]
    return INPUT.sub(lambda match: str(parameters[match[1]]), value)


def _defaults(definitions: Json) -> dict[str, Any]:
    parameters = definitions.get("parameters", {})
    return {
        name: definition.get("defaultValue")
        for name, definition in parameters.items()
        if "defaultValue" in definition
    }


def _holds(condition: str, inputs: Values) -> bool | None:
    """Return the result of a condition; None if it is unknown, or of another form."""
    match = CONDITION.fullmatch(condition)
    value = inputs.parameters.get(match[1], Unknown()) if match else Unknown()
    if match is None or isinstance(value, Unknown):
        return None
    return bool(value == match[3]) == (match[2] == "==")
