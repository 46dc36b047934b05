"""Forecast of a run's tasks: which will run, and which take their outputs from the cache.

The graph is followed by the rules of the service. A task whose inputs are known, and which an
earlier run has executed with the same component, container and inputs, is cached, and its outputs
are known as well; the outputs of the others are not.
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from components.shared.vertex.task_details import in_order
from pipelines.plan.earlier_tasks import EarlierTask, EarlierTasks, container_of
from trainer import Json
from vertex_local.rules.conditions import ConditionError, evaluate
from vertex_local.rules.placeholders import Unknown
from vertex_local.rules.values import (
    Foreseen,
    Result,
    TaskValues,
    defaults_of,
    inputs_of,
    typed,
)

RUNS, CACHED, DEPENDS, SKIPPED = "runs", "cached", "depends", "skipped"
PLACEHOLDER = "{{$"  # filled in by the service: of the project, the location or the run


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
    inputs: TaskValues
    component: Json
    container: Json
    earlier: EarlierTask | None


def forecast(
    spec: Json,
    parameters: Json,
    earlier: EarlierTasks,
    *,
    outputs: Mapping[str, Callable[[TaskValues], Json | None]] | None = None,
) -> list[TaskForecast]:
    """Return the forecast of each task, in the graph's order.

    `outputs` has functions by the display names of tasks: each returns the output parameters that
    its task will have for its inputs, None if they cannot be foreseen.
    """
    values = _typed(spec["root"], TaskValues(parameters))
    return _Walk(spec, earlier, outputs or {}).graph(spec["root"]["dag"], values, Fate(RUNS))


class _Walk:
    def __init__(
        self,
        spec: Json,
        earlier: EarlierTasks,
        outputs: Mapping[str, Callable[[TaskValues], Json | None]],
    ) -> None:
        self._spec, self._earlier, self._foreseen = spec, earlier, outputs

    def graph(self, dag: Json, inputs: TaskValues, outer: Fate) -> list[TaskForecast]:
        forecasts: list[TaskForecast] = []
        results: dict[str, Result] = {}
        for name, task in in_order(dag["tasks"]):
            component = self._spec["components"][task["componentRef"]["name"]]
            values = _typed(component, inputs_of(task, inputs, results, {}))
            title = task.get("taskInfo", {}).get("name", name)
            decides = task.get("triggerPolicy", {}).get("condition", "")
            holds = _holds(decides, values) if decides and outer.state != SKIPPED else True
            fate = outer if holds else Fate(DEPENDS if holds is None else SKIPPED, title)
            if "dag" in component:
                forecasts += self.graph(component["dag"], _with_item(task, name, values), fate)
                outputs = TaskValues()
            else:
                forecasts.append(self._task(name, task, _declared(component, values), fate))
                outputs = self._outputs(forecasts[-1])
            foreseen = (Foreseen(name, outputs.parameters), Foreseen(name, outputs.artifacts))
            results[name] = Result(True, TaskValues(*foreseen))
        return forecasts

    def _task(self, name: str, task: Json, inputs: TaskValues, fate: Fate) -> TaskForecast:
        component = self._spec["components"][task["componentRef"]["name"]]
        container = container_of(self._spec, component)
        state, earlier = fate.state, None
        can_be_cached = bool(task.get("cachingOptions", {}).get("enableCache"))
        if state == RUNS and can_be_cached and not inputs.unknown:
            same = (
                task
                for task in self._earlier.of(name)
                if (task.component, task.container) == (component, container)
                and has_inputs(task, inputs)
                and self._earlier.is_reusable(task)
            )
            earlier = next(same, None)
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

    def _outputs(self, task: TaskForecast) -> TaskValues:
        if task.state == CACHED and task.earlier:
            return task.earlier.outputs
        if task.state == RUNS and task.name in self._foreseen:
            return TaskValues(self._foreseen[task.name](task.inputs) or {})
        return TaskValues()


def has_inputs(task: EarlierTask, inputs: TaskValues) -> bool:
    """Return whether an earlier task had these inputs; the service fills in placeholders."""
    known, before = known_of(inputs), task.inputs
    values = {name: value for name, value in before.parameters.items() if name in known}
    return values == known and before.artifacts == inputs.artifacts


def known_of(inputs: TaskValues) -> Json:
    """Return the input parameters whose values are known before the run."""
    return {
        name: value
        for name, value in inputs.parameters.items()
        if not (isinstance(value, Unknown) or (isinstance(value, str) and PLACEHOLDER in value))
    }


def _typed(component: Json, inputs: TaskValues) -> TaskValues:
    parameters = defaults_of(component) | inputs.parameters
    return typed(component, TaskValues(parameters, inputs.artifacts))


def _declared(component: Json, inputs: TaskValues) -> TaskValues:
    """Return a task's inputs without those that the compiler adds for placeholders."""
    declared = component.get("inputDefinitions", {}).get("parameters", {})
    parameters = {name: value for name, value in inputs.parameters.items() if name in declared}
    return TaskValues(parameters, inputs.artifacts)


def _with_item(task: Json, name: str, inputs: TaskValues) -> TaskValues:
    """Return the inputs of a group; of a loop with an item that each iteration has another of."""
    parameters: Json = dict(inputs.parameters)
    artifacts: Any = dict(inputs.artifacts)
    if iterator := task.get("parameterIterator"):
        parameters[iterator["itemInput"]] = Unknown(name)
    if iterator := task.get("artifactIterator"):
        artifacts[iterator["itemInput"]] = Unknown(name)
    return TaskValues(parameters, artifacts)


def _holds(condition: str, inputs: TaskValues) -> bool | None:
    """Return the result of a condition; None if it cannot be evaluated before the run."""
    try:
        return evaluate(condition, inputs.parameters)
    except ConditionError:
        return None
