"""Tasks of a run with their dependencies, and a drawing: graph, names, and times as bars."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from components.shared.vertex.task_details import details_by_name, in_order, leaf_tasks, task_views
from trainer import Json

ROW, LANE, TOP = 24, 13, 8
WIDTH, NAME_WIDTH, BAR_WIDTH = 380, 124, 110
MARKS = {"SUCCEEDED": "", "FAILED": "failed", "CANCELLED": "cancelled", "NOT_RUN": "not run"}


@dataclass(frozen=True, kw_only=True)
class Node:
    """A task; `after` has the places of the tasks it depends on, `start` is in seconds."""

    name: str
    state: str
    is_cached: bool
    start: float
    seconds: float
    after: tuple[int, ...]


def nodes_of(job: Json) -> list[Node]:
    """Return the tasks of a PipelineJob, each after those it depends on."""
    spec = job.get("pipelineSpec")
    if not spec:
        return []
    names = leaf_tasks(spec)
    places = {name: place for place, name in enumerate(names)}
    parents = dependencies(spec)
    details = details_by_name(job)
    return [
        Node(
            name=view.name,
            state=view.state,
            is_cached=view.is_cached,
            start=_seconds_between(job.get("createTime"), details.get(name, {}).get("startTime")),
            seconds=view.seconds,
            after=tuple(sorted(places[parent] for parent in parents[name])),
        )
        for name, view in zip(names, task_views(job, names), strict=True)
    ]


def dependencies(spec: Json) -> dict[str, set[str]]:
    """Return the tasks that each task of a compiled pipeline waits for, by name.

    A group stands for its first tasks where it waits, and for its last ones where others wait.
    Dependencies that follow from others are left out.
    """
    found: dict[str, set[str]] = {}

    def walk(dag: Json, outer: set[str]) -> set[str]:
        last: dict[str, set[str]] = {}
        for name, task in in_order(dag["tasks"]):
            before = {one for parent in task.get("dependentTasks", []) for one in last[parent]}
            component = spec["components"][task["componentRef"]["name"]]
            if "dag" in component:
                last[name] = walk(component["dag"], before or outer)
            else:
                found[name], last[name] = before or outer, {name}
        waited_for = {p for task in dag["tasks"].values() for p in task.get("dependentTasks", [])}
        return {one for name, ends in last.items() if name not in waited_for for one in ends}

    walk(spec["root"]["dag"], set())
    return {name: _direct(found, parents) for name, parents in found.items()}


def draw_graph(nodes: Sequence[Node]) -> str:
    """Return the drawing; a row for each task."""
    lanes = _lanes(nodes)
    width = (max(lanes, default=0) + 1) * LANE + 6
    end = max((node.start + node.seconds for node in nodes), default=0.0) or 1.0
    edges = "".join(
        _edge(lanes, parent, place) for place, node in enumerate(nodes) for parent in node.after
    )
    rows = "".join(
        _row(node, place, lane, width=width, end=end)
        for place, (node, lane) in enumerate(zip(nodes, lanes, strict=True))
    )
    height = len(nodes) * ROW + 2 * TOP
    return (
        f'<svg class="graph" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="tasks of the run, their dependencies and times">{edges}{rows}</svg>'
    )


def _row(node: Node, place: int, lane: int, *, width: int, end: float) -> str:
    middle = TOP + place * ROW + ROW / 2
    css = f"{node.state.lower()}{' cached' if node.is_cached else ''}"
    left = width + NAME_WIDTH
    start, size = left + BAR_WIDTH * node.start / end, BAR_WIDTH * node.seconds / end
    note = "cached" if node.is_cached else MARKS.get(node.state, node.state.lower())
    has_time = node.state != "NOT_RUN" and not node.is_cached
    shown = " ".join(filter(None, [f"{node.seconds:.1f} s" if has_time else "", note]))
    bar = (
        f'<rect x="{start:.1f}" y="{middle - 6:.1f}" width="{max(size, 1):.1f}" height="12"/>'
        if has_time
        else ""
    )
    return (
        f'<g class="{escape(css)}"><circle cx="{lane * LANE + 8}" cy="{middle:.0f}" r="4.5"/>{bar}'
        f'<text class="title" x="{width}" y="{middle + 4:.0f}">{escape(node.name)}</text>'
        f'<text x="{WIDTH - 4}" y="{middle + 4:.0f}" text-anchor="end">{escape(shown)}</text></g>'
    )


def _edge(lanes: Sequence[int], parent: int, child: int) -> str:
    """Return the line between two tasks; in the lane of the task that is farther right."""
    (x1, y1), (x2, y2) = (
        (lanes[place] * LANE + 8, TOP + place * ROW + ROW // 2) for place in (parent, child)
    )
    if x2 >= x1:  # sideways first, then down
        bend = f"C{x1} {y1 + ROW * 0.8:.0f} {x2} {y1 + ROW * 0.2:.0f} {x2} {y1 + ROW}V{y2}"
    else:
        bend = f"V{y2 - ROW}C{x1} {y2 - ROW * 0.2:.0f} {x2} {y2 - ROW * 0.8:.0f} {x2} {y2}"
    return f'<path class="edge" d="M{x1} {y1}{bend}"/>'


def _lanes(nodes: Sequence[Node]) -> list[int]:
    """Return a lane for each task, so that no line runs through another task."""
    lanes: list[int] = []
    last_child = [
        max((c for c, n in enumerate(nodes) if p in n.after), default=p)
        for p, _ in enumerate(nodes)
    ]
    busy_until: dict[int, int] = {}
    for place, node in enumerate(nodes):
        own = [lanes[p] for p in node.after if busy_until.get(lanes[p], place) <= place]
        lane = min(own) if own else 0
        while busy_until.get(lane, -1) > place:
            lane += 1
        lanes.append(lane)
        busy_until[lane] = last_child[place]
    return lanes


def _direct(found: dict[str, set[str]], parents: set[str]) -> set[str]:
    """Return the parents that are no ancestors of other parents."""
    ancestors: set[str] = set()
    rest = [grand for parent in parents for grand in found[parent]]
    while rest:
        name = rest.pop()
        if name not in ancestors:
            ancestors.add(name)
            rest += found[name]
    return parents - ancestors


def _seconds_between(start: str | None, end: str | None) -> float:
    if not (start and end):
        return 0.0
    first, last = (datetime.datetime.fromisoformat(one) for one in (start, end))
    return max((last - first).total_seconds(), 0.0)
