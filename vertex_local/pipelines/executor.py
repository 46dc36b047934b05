"""Executor of a compiled pipeline: starts every task whose inputs are ready, as Vertex AI does.

A graph is the tasks of the pipeline, of a nested pipeline, of a condition or of one iteration of a
loop. Each of its tasks waits for the tasks that it depends on, then runs: in a thread if it has an
executor, else as a graph of its own. At most `num_parallel` threads run tasks.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from vertex_local import Json
from vertex_local.errors import rpc_status
from vertex_local.pipelines import journal
from vertex_local.pipelines.record import ROOT, leaf_key
from vertex_local.pipelines.run_state import PipelineRun, Task
from vertex_local.pipelines.tasks import TaskRunner
from vertex_local.rules import placeholders
from vertex_local.rules.conditions import ConditionError, evaluate
from vertex_local.rules.values import (
    Result,
    TaskValues,
    collected,
    defaults_of,
    inputs_of,
    loop_items,
    outputs_of,
    runs_always,
    typed,
    upstream_of,
)

FAILED = Result(is_success=False)
NOT_TRIGGERED = Result(is_success=True)


@dataclass(frozen=True)
class Graph:
    """One execution of the tasks of a component, `name`, which is `ROOT` for the pipeline itself.

    `scope` are the tasks and iterations that it is in, `/exit-handler-1/for-loop-2-iteration-0`.
    """

    name: str
    scope: str
    inputs: TaskValues
    specs: dict[str, Json]
    tasks: dict[str, asyncio.Task[Result]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Executor of one run; `job` is its PipelineJob with the checked specification."""

    run: PipelineRun
    job: Json
    task_runner: TaskRunner
    num_parallel: int

    def execute(self) -> bool:
        """Run the pipeline to its end; return whether all tasks succeeded."""
        return asyncio.run(self._execute())

    async def _execute(self) -> bool:
        pool = ThreadPoolExecutor(self.num_parallel, thread_name_prefix="task")
        asyncio.get_running_loop().set_default_executor(pool)
        values = self.job["runtimeConfig"].get("parameterValues", {})
        filled = placeholders.fill_inputs(values, {}, self._run_values)
        inputs = TaskValues({name: value for name, value in filled.items() if value is not None})
        result = await self._run_graph(ROOT, "", inputs)
        return result.is_success

    async def _run_graph(self, name: str, scope: str, inputs: TaskValues) -> Result:
        """Run the tasks of a component; return its outputs if all succeeded."""
        component = self._component(name)
        defaults = placeholders.fill_inputs(defaults_of(component), {}, self._run_values)
        inputs = typed(component, replace(inputs, parameters=defaults | inputs.parameters))
        graph = Graph(name, scope, inputs, component["dag"].get("tasks", {}))
        for task in graph.specs:
            graph.tasks[task] = asyncio.create_task(self._run_task(graph, task))
        results = {name: await task for name, task in graph.tasks.items()}
        if not all(result.is_success for result in results.values()):
            return FAILED
        return Result(True, outputs_of(component, results))

    async def _run_task(self, graph: Graph, name: str) -> Result:
        """Run a task, a loop or a group once the tasks that it depends on have ended."""
        task = graph.specs[name]
        upstream = {needed: await graph.tasks[needed] for needed in sorted(upstream_of(task))}
        has_condition = "condition" in task.get("triggerPolicy", {})
        is_blocked = not all(result.is_success for result in upstream.values())
        if (is_blocked and not runs_always(task)) or (has_condition and self.run.is_stopping):
            return FAILED
        try:
            if has_condition and not self._is_triggered(task, graph, upstream):
                return NOT_TRIGGERED
            if "dag" not in self._component(task["componentRef"]["name"]):
                return await asyncio.to_thread(self._run_leaf, graph, name, upstream)
            inputs = self._inputs_of(task, graph, upstream)
            scope = f"{graph.scope}/{name}"
            if "parameterIterator" in task or "artifactIterator" in task:
                return await self._run_loop(task, scope, inputs)
            return await self._run_graph(task["componentRef"]["name"], scope, inputs)
        except Exception as error:  # otherwise the exit task would not run
            start = {"name": name, "scope": graph.scope}
            self.run.fail(*journal.failure(start, graph.inputs.parameters, str(error)))
            return FAILED

    def _is_triggered(self, task: Json, graph: Graph, upstream: Mapping[str, Result]) -> bool:
        """Return whether a task's condition is true.

        Raises:
            ConditionError: It cannot be evaluated.
        """
        condition = task["triggerPolicy"]["condition"]
        component = self._component(task["componentRef"]["name"])
        try:
            inputs = self._inputs_of(task, graph, upstream)
        except ValueError as error:
            raise ConditionError(f"condition `{condition}` cannot be evaluated: {error}") from None
        return evaluate(condition, typed(component, inputs).parameters)

    async def _run_loop(self, task: Json, scope: str, inputs: TaskValues) -> Result:
        """Run the iterations of a loop, at most `parallelism` at a time."""
        items = loop_items(task, inputs)
        name = (task.get("parameterIterator") or task["artifactIterator"])["itemInput"]
        limit = task.get("iteratorPolicy", {}).get("parallelismLimit") or len(items)
        slots = asyncio.Semaphore(limit)
        reference = task["componentRef"]["name"]

        async def iterate(number: int, values: TaskValues) -> Result:
            async with slots:
                iteration = f"{scope}{journal.ITERATION}{number}"
                is_value = name in values.parameters
                item = values.parameters[name] if is_value else values.artifacts[name][0]["uri"]
                self.run.journal.write("iteration_started", scope=iteration, item=item)
                return await self._run_graph(reference, iteration, values)

        results = await asyncio.gather(*map(iterate, range(len(items)), items))
        if not all(result.is_success for result in results):
            return FAILED
        outputs = [result.outputs for result in results]
        return Result(True, collected(self._component(reference), outputs))

    def _run_leaf(self, graph: Graph, name: str, upstream: Mapping[str, Result]) -> Result:
        spec = graph.specs[name]

        def execute(task: Task) -> TaskValues:
            return self.task_runner.execute(task, spec, self._inputs_of(spec, graph, upstream))

        return self.run.run_task(leaf_key(graph.name, name), scope=graph.scope, execute=execute)

    def _inputs_of(self, task: Json, graph: Graph, upstream: Mapping[str, Result]) -> TaskValues:
        """Return the inputs of a task, or of a nested pipeline, with final statuses.

        Raises:
            ValueError: An input is the output of a task that has not made it.
        """
        inputs = inputs_of(task, graph.inputs, upstream, self._run_values)
        for parameter, source in task.get("inputs", {}).get("parameters", {}).items():
            if ended := source.get("taskFinalStatus", {}).get("producerTask"):
                inputs.parameters[parameter] = self._final_status(ended, upstream[ended])
        return inputs

    def _final_status(self, name: str, ended: Result) -> Json:
        """Return the final status for an exit task; no `error` after a success, as on Vertex AI."""
        names = {"pipeline_job_resource_name": self.run.name, "pipeline_task_name": name}
        if ended.is_success:
            return {"state": "SUCCEEDED", **names}
        code = "CANCELLED" if self.run.is_cancelled else "FAILED_PRECONDITION"
        state = "CANCELLED" if self.run.is_cancelled else "FAILED"
        return {"state": state, **names, "error": rpc_status(code, self.run.error_message())}

    def _component(self, name: str) -> Json:
        spec = self.job["pipelineSpec"]
        component: Json = spec["root"] if name == ROOT else spec["components"][name]
        return component

    @property
    def _run_values(self) -> dict[str, str]:
        return self.task_runner.run_values
