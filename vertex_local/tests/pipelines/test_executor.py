"""The order of tasks: random graphs, tasks that must meet, failures, cancelled runs."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from vertex_local.pipelines import journal
from vertex_local.pipelines.executor import Executor
from vertex_local.pipelines.record import leaves
from vertex_local.pipelines.run_state import PipelineRun, Task, TaskError
from vertex_local.rules.values import TaskValues

pytestmark = [pytest.mark.fast, pytest.mark.timeout(60)]

ALWAYS = {"triggerPolicy": {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}}
NAME = "projects/p/locations/l/pipelineJobs/run-1"
STEP = {"executorLabel": "exec", "outputDefinitions": {"parameters": {"out": {}}}}


def step(*after: str, **fields) -> dict:
    return {"componentRef": {"name": "step"}, "dependentTasks": list(after), **fields}


def group(component: str, *after: str, **fields) -> dict:
    return step(*after, **fields) | {"componentRef": {"name": component}}


def loop(component: str, *after: str, items: str, parallelism: int = 0) -> dict:
    iterator = {"items": {"raw": items}, "itemInput": "item"}
    policy = {"parallelismLimit": parallelism} if parallelism else {}
    return group(component, *after, parameterIterator=iterator, iteratorPolicy=policy)


def pipeline(root: dict, **components: dict) -> dict:
    """Return a specification whose components are graphs of tasks, besides `step`."""
    graphs = {name: {"dag": {"tasks": tasks}} for name, tasks in components.items()}
    return {
        "pipelineInfo": {"name": "p"},
        "root": {"dag": {"tasks": root}},
        "components": {"step": STEP, **graphs},
    }


@dataclass
class Steps:
    """Stands for the processes of tasks; records their starts and ends in order."""

    fails: set[str] = field(default_factory=set)
    work: Callable[[Task], object] = lambda task: None
    run: PipelineRun | None = None
    run_values: dict = field(default_factory=dict)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    inputs: dict[tuple[str, str], dict] = field(default_factory=dict)

    def execute(self, task, spec, inputs) -> TaskValues:
        self.events.append(("start", task.scope, task.leaf.name))
        self.inputs[task.scope, task.leaf.name] = inputs.parameters
        self.work(task)
        self.events.append(("end", task.scope, task.leaf.name))
        if task.leaf.name in self.fails:
            raise TaskError("no")
        return TaskValues({"out": task.leaf.name})


def execute(folder, spec: dict, steps: Steps, *, num_parallel: int = 16, **config):
    """Run a pipeline; return whether it succeeded, and the run."""
    job = {"name": NAME, "pipelineSpec": spec, "runtimeConfig": config}
    steps.run = PipelineRun(job, folder=folder, leaves=leaves(spec))
    executor = Executor(run=steps.run, job=job, task_runner=steps, num_parallel=num_parallel)
    return executor.execute(), steps.run


def random_tasks(chance: random.Random, graphs: dict, depth: int) -> dict:
    """Return the tasks of a graph, some of them groups and loops, which are added to `graphs`."""
    tasks: dict[str, dict] = {}
    mark = len(graphs)
    for number in range(chance.randint(1, 6)):
        after = chance.sample(list(tasks), min(len(tasks), chance.choice([0, 1, 1, 2])))
        kind = chance.choice(["step", "step", "step", "group", "loop"]) if depth else "step"
        name = f"t{mark}-{number}"
        if kind == "step":
            tasks[name] = step(*after)
            continue
        component = f"graph-{len(graphs)}"
        graphs[component] = {}
        graphs[component] = random_tasks(chance, graphs, depth - 1)
        items = str(list(range(chance.randint(0, 4))))
        made = loop(component, *after, items=items, parallelism=chance.choice([0, 1, 2]))
        tasks[name] = made if kind == "loop" else group(component, *after)
    names = list(tasks)
    chance.shuffle(names)  # the order in a file says nothing
    return {name: tasks[name] for name in names}


def leaf_instances(spec: dict, tasks: dict, scope: str, failing: set[str]) -> tuple[set, bool]:
    """Return the instances of steps that must run, and whether all tasks of a graph succeed."""
    instances, succeeded = set(), {}

    def visit(name: str) -> bool:
        if name not in succeeded:
            task = tasks[name]
            ready = sum(map(visit, task["dependentTasks"])) == len(task["dependentTasks"])
            succeeded[name] = ready and run(name, task)
        return succeeded[name]

    def run(name: str, task: dict) -> bool:
        reference = task["componentRef"]["name"]
        if reference == "step":
            instances.add((scope, name))
            return name not in failing
        scopes = [f"{scope}/{name}"]
        if iterator := task.get("parameterIterator"):
            count = len(eval(iterator["items"]["raw"]))
            scopes = [f"{scope}/{name}-iteration-{number}" for number in range(count)]
        inner = spec["components"][reference]["dag"]["tasks"]
        found = [leaf_instances(spec, inner, one, failing) for one in scopes]
        for made, _ in found:
            instances.update(made)
        return all(is_success for _, is_success in found)

    return instances, sum(map(visit, tasks)) == len(tasks)


def positions(events: list, kind: str) -> dict[tuple[str, str], int]:
    return {(scope, name): n for n, (event, scope, name) in enumerate(events) if event == kind}


def check_order(spec: dict, events: list) -> None:
    """Check that each step starts after all steps that it depends on, also through its groups."""
    starts, ends = positions(events, "start"), positions(events, "end")
    graphs = {name: one["dag"]["tasks"] for name, one in spec["components"].items() if "dag" in one}
    owners = {
        name: tasks for tasks in (spec["root"]["dag"]["tasks"], *graphs.values()) for name in tasks
    }
    for scope, name in starts:
        path = [*scope.split("/")[1:], name]
        for depth, part in enumerate(path):
            task = part.partition("-iteration-")[0]
            outside = "".join(f"/{one}" for one in path[:depth])
            for needed in owners[task][task]["dependentTasks"]:
                before = [
                    end
                    for (inner, leaf), end in ends.items()
                    if (inner, leaf) == (outside, needed)
                    or f"{inner}/".startswith(
                        (f"{outside}/{needed}/", f"{outside}/{needed}-iteration-")
                    )
                ]
                assert all(end < starts[scope, name] for end in before), (scope, name, needed)


def most_at_a_time(events: list, key) -> int:
    running, most = Counter(), 0
    for event, scope, name in events:
        if (one := key(scope, name)) is not None:
            running[one] += 1 if event == "start" else -1
            running += Counter()
            most = max(most, len(running))
    return most


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_run_each_task_once_after_its_inputs_and_the_exit_task_last(tmp_path, seed):
    chance = random.Random(seed)
    graphs: dict[str, dict] = {"handler": {}}
    graphs["handler"] = random_tasks(chance, graphs, depth=3)
    status = {"parameters": {"status": {"taskFinalStatus": {"producerTask": "all"}}}}
    root = {"exit": step("all", inputs=status, **ALWAYS), "all": group("handler")}
    spec = pipeline(root, **graphs)
    names = [name for tasks in graphs.values() for name in tasks]
    failing = set(chance.sample(names, min(len(names), chance.choice([0, 0, 1, 2]))))
    pauses = {name: chance.choice([0, 0, 0.001, 0.004]) for name in names}
    steps = Steps(failing, lambda task: time.sleep(pauses.get(task.leaf.name, 0)))
    num_parallel = chance.choice([1, 2, 16])

    is_success, run = execute(tmp_path, spec, steps, num_parallel=num_parallel)

    expected, is_expected = leaf_instances(spec, graphs["handler"], "/all", failing)
    started = Counter((scope, name) for kind, scope, name in steps.events if kind == "start")
    assert set(started) == expected | {("", "exit")}
    assert set(started.values()) == {1}
    assert is_success is is_expected
    assert steps.events[-2:] == [("start", "", "exit"), ("end", "", "exit")]
    check_order(spec, steps.events)
    assert most_at_a_time(steps.events, lambda *instance: instance) <= num_parallel
    for tasks in graphs.values():
        for name, task in tasks.items():
            if limit := task.get("iteratorPolicy", {}).get("parallelismLimit"):
                check_parallelism(steps.events, name, limit)
    run.journal_untriggered()
    seen = {(one["taskName"]) for one in journal.task_details(journal.read(tmp_path))}
    assert seen == {leaf.name for leaf in leaves(spec)}


def check_parallelism(events: list, name: str, limit: int) -> None:
    """Check that a loop never runs more iterations at a time than its `parallelism`."""
    mark = f"/{name}-iteration-"
    outers = {scope.partition(mark)[0] for _, scope, _ in events if mark in scope}
    for outer in outers:

        def iteration(scope: str, leaf: str, prefix: str = outer + mark) -> str | None:
            return (
                scope.removeprefix(prefix).partition("/")[0] if scope.startswith(prefix) else None
            )

        assert most_at_a_time(events, iteration) <= limit


def test_tasks_whose_inputs_are_ready_meet(tmp_path):
    barrier = threading.Barrier(8)
    spec = pipeline(
        {"one": step(), "two": step(), "loop": loop("inner", items="[1, 2, 3]")},
        inner={"three": step(), "four": step()},
    )
    assert execute(tmp_path, spec, Steps(work=lambda task: barrier.wait(30)))[0]


def test_iterations_of_a_loop_meet_up_to_its_parallelism(tmp_path):
    barrier = threading.Barrier(3)
    spec = pipeline({"loop": loop("inner", items=str([0] * 6), parallelism=3)}, inner={"a": step()})
    steps = Steps(work=lambda task: barrier.wait(30))
    assert execute(tmp_path, spec, steps)[0]
    check_parallelism(steps.events, "loop", 3)


def test_the_journal_has_the_item_of_each_iteration(tmp_path):
    spec = pipeline({"loop": loop("inner", items='[0, "b", {"c": 1}]')}, inner={"a": step()})
    execute(tmp_path, spec, Steps())
    events = [event for event in journal.read(tmp_path) if event["event"] == "iteration_started"]
    assert {event["scope"]: event["item"] for event in events} == {
        "/loop-iteration-0": 0,
        "/loop-iteration-1": "b",
        "/loop-iteration-2": {"c": 1},
    }


@pytest.mark.parametrize(
    ("policy", "later"),
    [("PIPELINE_FAILURE_POLICY_FAIL_FAST", 0), ("PIPELINE_FAILURE_POLICY_FAIL_SLOW", 2)],
)
def test_after_a_failure_running_tasks_end_and_new_ones_start_only_if_slow(tmp_path, policy, later):
    has_failed = threading.Event()

    def work(task) -> None:
        if task.leaf.name == "long":
            assert has_failed.wait(30)
            time.sleep(0.05)  # until the failure is recorded
        else:
            has_failed.set()

    spec = pipeline(
        {
            "long": step(),
            "bad": step(),
            "next": step("long"),
            "loop": loop("inner", "long", items="[1]"),
            "exit": step("bad", "next", "loop", **ALWAYS),
        },
        inner={"a": step()},
    )
    steps = Steps({"bad"}, work)
    is_success, _ = execute(tmp_path, spec, steps, failurePolicy=policy)
    assert not is_success
    started = [name for kind, _, name in steps.events if kind == "start"]
    assert set(started[:2]) == {"long", "bad"}
    assert len(started) == 3 + later
    assert started[-1] == "exit"
    assert ("end", "", "long") in steps.events


def test_a_cancelled_run_starts_only_its_exit_task(tmp_path):
    steps = Steps(work=lambda task: steps.run.cancel())
    spec = pipeline(
        {"all": group("inner"), "exit": step("all", **ALWAYS)},
        inner={"a": step(), "b": step("a"), "loop": loop("deep", "a", items="[1, 2]")},
        deep={"c": step()},
    )
    assert not execute(tmp_path, spec, steps)[0]
    assert [name for kind, _, name in steps.events if kind == "start"] == ["a", "exit"]


def test_after_an_interruption_only_exit_tasks_of_graphs_that_had_started_run_once(tmp_path):
    """At any event of a pipeline with nested ones, of which one gets the output of a task."""
    from_outside = {"parameters": {"name": {"componentInputParameter": "name"}}}
    made = {"producerTask": "named", "outputParameterKey": "out"}
    of_task = {"parameters": {"name": {"taskOutputParameter": made}}}
    spec = pipeline(
        {"exit": step("all", **ALWAYS), "all": group("nested")},
        nested={
            "named": step(),
            "first": group("part", "named", inputs=of_task),
            "second": group("part", "first", inputs=of_task),
        },
        part={"end": step("work", **ALWAYS, inputs=from_outside), "work": group("body")},
        body={"a": step()},
    )
    whole = tmp_path / "whole"
    whole.mkdir()
    execute(whole, spec, Steps())
    lines = (whole / journal.FILE_NAME).read_text().splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / journal.FILE_NAME).write_text("".join(lines[:number]))
        events = journal.read(folder)
        journal.Journal(folder).write(
            "pipeline_interrupted", state="FAILED", reason="gone", was_stopped=False
        )
        steps = Steps()
        execute(folder, spec, steps)
        started = {one["id"]: one for one in events if one["event"] == "task_started"}
        ended = [started[one["id"]] for one in events if one["event"] == "task_ended"]
        done = {(one["scope"], one["name"]) for one in ended}
        begun = [f"{one['scope']}/" for one in started.values()]
        exits = [("/all/first", "end"), ("/all/second", "end"), ("", "exit")]
        assert list(positions(steps.events, "start")) == [
            one
            for one in exits
            if one not in done and any(scope.startswith(f"{one[0]}/") for scope in begun)
        ]
        for (scope, _), inputs in steps.inputs.items():
            assert inputs.get("name") == ("named" if scope else None)
