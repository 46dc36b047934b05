"""The graph of a run, drawn from top to bottom in layers."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from graphlib import TopologicalSorter

from vertex_local import Json
from vertex_local.console.words import tone
from vertex_local.pipelines.record import ROOT, leaf_key
from vertex_local.rules.values import upstream_of

BY_BADNESS = ("good", "off", "stop", "wait", "busy", "bad")  # "off": cancelled
WIDTH, HEIGHT, GAP_X, GAP_Y = 168, 34, 14, 26  # of a task's box, also in run.html


@dataclass(frozen=True)
class DrawnTask:
    """Task that is no graph: its key in the specification, its name, the tasks it waits for."""

    key: str
    title: str
    waits: set[str]


def draw(spec: Json, tasks: list[Json]) -> Json:
    """Return places of tasks with their state (in a loop the worst), and edges as paths of SVG.

    Each task has its `key` in the specification, which the journal names.
    """
    leaves = _leaves(spec, ROOT, "", set()) if "root" in spec else {}
    ranked = sorted(tasks, key=lambda task: BY_BADNESS.index(tone(task["state"])))
    states = {task["key"]: task for task in ranked}
    counts = Counter(task["key"] for task in tasks)
    depth: dict[str, int] = {}
    before: dict[str, set[str]] = {}
    for path in TopologicalSorter(
        {path: leaf.waits for path, leaf in leaves.items()}
    ).static_order():
        waits = leaves[path].waits
        depth[path] = 1 + max(map(depth.__getitem__, waits), default=-1)
        before[path] = waits.union(*map(before.__getitem__, waits))

    layers: dict[int, list[str]] = defaultdict(list)
    for path in leaves:
        layers[depth[path]].append(path)
    width = max(map(len, layers.values()), default=1) * (WIDTH + GAP_X) + GAP_X
    nodes = {
        path: {
            "key": leaves[path].key,
            "name": leaves[path].title,
            "x": (width - len(layer) * (WIDTH + GAP_X) + GAP_X) / 2 + column * (WIDTH + GAP_X),
            "y": GAP_Y / 2 + row * (HEIGHT + GAP_Y),
            "task": states.get(leaves[path].key),
            "count": counts[leaves[path].key],
        }
        for row, layer in layers.items()
        for column, path in enumerate(layer)
    }
    edges = [
        _edge(nodes[source], nodes[path])
        for path, leaf in leaves.items()
        for source in sorted(leaf.waits.difference(*map(before.__getitem__, leaf.waits)))
    ]
    height = len(layers) * (HEIGHT + GAP_Y)
    return {"width": width, "height": height, "nodes": [*nodes.values()], "edges": edges}


def tasks_of(spec: Json, component: str) -> Json:
    """Return the tasks of a component's graph, or of the pipeline's own (`ROOT`), by name."""
    graph = spec["root"] if component == ROOT else spec["components"][component]
    return graph["dag"]["tasks"]  # type: ignore[no-any-return]


def _leaves(spec: Json, component: str, scope: str, before: set[str]) -> dict[str, DrawnTask]:
    """Return the tasks that are no graphs by path; `before` is what their graph waits for."""
    tasks = tasks_of(spec, component)
    upstream = {name: sorted(upstream_of(tasks[name]) & tasks.keys()) for name in sorted(tasks)}
    made: dict[str, dict[str, DrawnTask]] = {}
    for name in TopologicalSorter(upstream).static_order():
        waits = before.union(*(made[source] for source in upstream[name]))
        inner, path = tasks[name]["componentRef"]["name"], f"{scope}/{name}"
        if "dag" in spec["components"][inner]:
            made[name] = _leaves(spec, inner, path, waits)
        else:
            title = tasks[name].get("taskInfo", {}).get("name") or name
            made[name] = {path: DrawnTask(leaf_key(component, name), title, waits)}
    return {path: leaf for name in upstream for path, leaf in made[name].items()}


def _edge(source: Json, target: Json) -> str:
    """Return the path of an edge: straight down beside the layers between, then a curve."""
    x1, y1 = source["x"] + WIDTH / 2, source["y"] + HEIGHT
    x2, y2 = target["x"] + WIDTH / 2, target["y"]
    middle = y2 - GAP_Y / 2
    return f"M{x1:g} {y1:g}V{y2 - GAP_Y:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
