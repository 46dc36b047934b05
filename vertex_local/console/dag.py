"""The graph of a run, drawn from top to bottom in layers."""

from collections import defaultdict
from functools import cache

from vertex_local import Json
from vertex_local.pipelines.values import upstream_of

WIDTH, HEIGHT, GAP_X, GAP_Y = 168, 34, 14, 26  # of a task's box, also in run.html
Upstream = dict[str, set[str]]


def draw(spec: Json, tasks: list[Json]) -> Json:
    """Return places of tasks with their state (of a loop the last), and edges as paths of SVG."""
    upstream = _leaves(spec, spec["root"], set()) if "root" in spec else {}
    states = {task["taskName"]: task for task in tasks}

    @cache
    def depth(name: str) -> int:
        return 1 + max(map(depth, upstream[name]), default=-1)

    @cache
    def all_before(name: str) -> frozenset[str]:
        return frozenset(upstream[name]).union(*map(all_before, upstream[name]))

    layers: dict[int, list[str]] = defaultdict(list)
    for name in upstream:
        layers[depth(name)].append(name)
    width = max(map(len, layers.values()), default=1) * (WIDTH + GAP_X) + GAP_X
    nodes = {
        name: {
            "name": name,
            "x": (width - len(layer) * (WIDTH + GAP_X) + GAP_X) / 2 + column * (WIDTH + GAP_X),
            "y": GAP_Y / 2 + row * (HEIGHT + GAP_Y),
            "task": states.get(name),
        }
        for row, layer in layers.items()
        for column, name in enumerate(layer)
    }
    edges = [
        _edge(nodes[source], nodes[name])
        for name, sources in upstream.items()
        for source in sorted(sources.difference(*map(all_before, sources)))
    ]
    height = len(layers) * (HEIGHT + GAP_Y)
    return {"width": width, "height": height, "nodes": [*nodes.values()], "edges": edges}


def tasks_of(run: Json) -> Json:
    """Return the tasks of all graphs of a run's pipeline, by name."""
    spec = run.get("pipelineSpec", {})
    graphs = [spec.get("root", {}), *spec.get("components", {}).values()]
    return {
        key: task for graph in graphs for key, task in graph.get("dag", {}).get("tasks", {}).items()
    }


def _leaves(spec: Json, graph: Json, before: set[str]) -> Upstream:
    """Return the tasks before each task that is no graph; `before` is what the graph waits for."""
    tasks = graph["dag"]["tasks"]

    @cache
    def leaves_of(name: str) -> Upstream:
        waits = before.union(*map(leaves_of, upstream_of(tasks[name]) & tasks.keys()))
        component = spec["components"][tasks[name]["componentRef"]["name"]]
        return _leaves(spec, component, waits) if "dag" in component else {name: waits}

    return {leaf: waits for name in sorted(tasks) for leaf, waits in leaves_of(name).items()}


def _edge(source: Json, target: Json) -> str:
    """Return the path of an edge: straight down beside the layers between, then a curve."""
    x1, y1 = source["x"] + WIDTH / 2, source["y"] + HEIGHT
    x2, y2 = target["x"] + WIDTH / 2, target["y"]
    middle = y2 - GAP_Y / 2
    return f"M{x1:g} {y1:g}V{y2 - GAP_Y:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
