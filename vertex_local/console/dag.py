"""The graph of a run, drawn from top to bottom in layers."""

from collections import defaultdict
from dataclasses import dataclass

from vertex_local import Json
from vertex_local.pipelines.values import upstream_of

WIDTH, HEIGHT, GAP_X, GAP_Y = 168, 34, 14, 26
ROOT = "root"
Upstream = dict[str, set[str]]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A task in the drawing; `task` is its state, {} before it starts."""

    name: str
    x: float
    y: float
    task: Json


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Nodes, and edges as paths of SVG."""

    width: float
    height: float
    nodes: list[Node]
    edges: list[str]


def draw(spec: Json, tasks: list[Json]) -> Drawing:
    """Return the drawing of a pipeline with the state of its tasks; of a loop's the last."""
    upstream = _leaves(spec, ROOT, set()) if "root" in spec else {}
    states = {task["taskName"]: task for task in tasks}
    layers = _layers(upstream)
    widest = max((len(layer) for layer in layers), default=1)
    width = widest * (WIDTH + GAP_X) + GAP_X
    nodes = {
        name: Node(
            name=name,
            x=(width - len(layer) * (WIDTH + GAP_X) + GAP_X) / 2 + column * (WIDTH + GAP_X),
            y=GAP_Y / 2 + row * (HEIGHT + GAP_Y),
            task=states.get(name, {}),
        )
        for row, layer in enumerate(layers)
        for column, name in enumerate(layer)
    }
    edges = [
        _edge(nodes[source], nodes[name])
        for name, sources in _reduced(upstream).items()
        for source in sorted(sources)
    ]
    height = len(layers) * (HEIGHT + GAP_Y)
    return Drawing(width=width, height=height, nodes=list(nodes.values()), edges=edges)


def tasks_of(spec: Json) -> Json:
    """Return the tasks of all graphs of a pipeline, by name."""
    graphs = [spec.get("root", {}), *spec.get("components", {}).values()]
    return {
        name: task
        for graph in graphs
        for name, task in graph.get("dag", {}).get("tasks", {}).items()
    }


def _leaves(spec: Json, component: str, before: set[str]) -> Upstream:
    """Return the tasks before each task that is no graph; `before` is what the graph waits for."""
    graph = spec["root"] if component == ROOT else spec["components"][component]
    tasks = graph["dag"]["tasks"]
    inner: dict[str, Upstream] = {}

    def add(name: str) -> Upstream:
        if name not in inner:
            sources = [add(one) for one in sorted(upstream_of(tasks[name]) & tasks.keys())]
            waits = before | {leaf for source in sources for leaf in source}
            called = tasks[name]["componentRef"]["name"]
            is_graph = "dag" in spec["components"][called]
            inner[name] = _leaves(spec, called, waits) if is_graph else {name: waits}
        return inner[name]

    leaves: Upstream = {}
    for name in sorted(tasks):
        leaves |= add(name)
    return leaves


def _reduced(upstream: Upstream) -> Upstream:
    """Return the edges without those that a longer way has, too."""
    reached: Upstream = {}

    def all_before(name: str) -> set[str]:
        if name not in reached:
            reached[name] = upstream[name].union(*map(all_before, upstream[name]))
        return reached[name]

    return {
        name: sources.difference(*(all_before(source) for source in sources))
        for name, sources in upstream.items()
    }


def _layers(upstream: Upstream) -> list[list[str]]:
    """Return the tasks by the length of the longest way to them."""
    depth: dict[str, int] = {}

    def depth_of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max(map(depth_of, upstream[name]), default=-1)
        return depth[name]

    layers: dict[int, list[str]] = defaultdict(list)
    for name in upstream:
        layers[depth_of(name)].append(name)
    return [layers[number] for number in sorted(layers)]


def _edge(source: Node, target: Node) -> str:
    """Return the path of an edge: straight down beside the layers between, then a curve."""
    x1, y1 = source.x + WIDTH / 2, source.y + HEIGHT
    x2, y2 = target.x + WIDTH / 2, target.y
    middle = y2 - GAP_Y / 2
    return f"M{x1:g} {y1:g}V{y2 - GAP_Y:g}C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
