"""Where a train step spends its time: a timeline of each replica, and milliseconds per step.

Two workers train the MNIST CNN, a core each, and write a profile of some steps. The operations of
the profile are grouped, and drawn for a few steps in the middle.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.clusters import CACHE, Shape, scratch, train_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CASES = {
    "multi_worker_mirrored": Shape(chiefs=0, workers=2, cores={"worker/0": [0], "worker/1": [1]}),
    "parameter_server": Shape(workers=2, ps=1, cores={"worker/0": [0], "worker/1": [1]}),
}
BATCH_SIZE, STEPS, PROFILED = 256, 400, "301-325"
SHOWN_SECONDS = 0.08
COLOURS = {
    "examples": "#8c8c8c",
    "forward": "#4c78a8",
    "backward": "#9ecae9",
    "all-reduce": "#e45756",
    "send": "#f58518",
    "update": "#54a24b",
}
OPS = {"PyFunc": "all-reduce", "_Send": "send", "GatherV2": "examples"}
LOSS = "SparseSoftmaxCrossEntropyWithLogits"  # once in a step


@dataclass(frozen=True)
class Span:
    """An operation of a replica; times in seconds since the epoch."""

    kind: str
    name: str
    start: float
    end: float


def main() -> None:
    """Print a line for each replica of each strategy, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, default=CACHE / "step.png", help="%(default)s")
    arguments = parser.parse_args()
    traces = {strategy: trace(strategy) for strategy in CASES}
    for strategy, replicas in traces.items():
        for name, spans in replicas.items():
            line = {"name": f"{strategy} {name}", **budget(spans)}
            sys.stdout.write(json.dumps(line) + "\n")
    draw(traces, arguments.picture)
    sys.stderr.write(f"drawn in {arguments.picture}\n")


def trace(strategy: str) -> dict[str, list[Span]]:
    """Return the operations of the replicas that write a profile."""
    shape = CASES[strategy]
    batch_size = BATCH_SIZE * (1 if shape.ps else shape.workers)
    flags = [f"--steps={STEPS}", f"--batch-size={batch_size}", "--model=cnn"]
    flags += ["--steps-per-call=25", f"--profile-steps={PROFILED}"]
    with scratch() as out:
        train_in(out, shape, *flags)
        files = sorted(out.glob("logs/plugins/profile/*/*.xplane.pb"))
        found = [spans for file in files if (spans := list(read(file)))]
    # Neither: a chief that was evaluating.
    workers = [spans for spans in found if any(span.kind == "backward" for span in spans)]
    servers = [spans for spans in found if not any(span.name == LOSS for span in spans)]
    return {
        **{f"worker/{index}": spans for index, spans in enumerate(workers)},
        **{f"ps/{index}": spans for index, spans in enumerate(servers)},
    }


def read(file: Path) -> Iterable[Span]:
    """Yield the operations of a step in a profile; a chief has none."""
    from trainer.runtime.tensorflow_logs import import_tensorflow

    import_tensorflow()
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    profile = xplane_pb2.XSpace.FromString(file.read_bytes())
    (began,) = (
        stat.uint64_value
        for plane in profile.planes
        for stat in plane.stats
        if plane.stat_metadata[stat.metadata_id].name == "profile_start_time"
    )
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                scope, _, name = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if not scope.startswith("while"):
                    continue  # not an operation of the loop over the steps
                start = (began + line.timestamp_ns) / 1e9 + event.offset_ps / 1e12
                yield Span(kind_of(scope, name), name, start, start + event.duration_ps / 1e12)


def kind_of(scope: str, name: str) -> str:
    """Return the group of an operation."""
    if name.startswith(("ResourceApply", "Assign")):
        return "update"
    return OPS.get(name) or ("backward" if "gradient_tape" in scope else "forward")


def budget(spans: list[Span]) -> dict[str, float]:
    """Return the milliseconds of each group per step; the rest of the time is waiting.

    Of operations at the same time the one that began first counts, so the groups add up.
    """
    begin, end = min(span.start for span in spans), max(span.end for span in spans)
    one = LOSS if any(span.name == LOSS for span in spans) else "OneHot"  # the counts of a server
    steps = sum(span.name == one for span in spans)
    seconds: dict[str, float] = defaultdict(float)
    until = begin
    for span in sorted(spans, key=lambda span: span.start):
        seconds[span.kind] += max(0.0, span.end - max(span.start, until))
        until = max(until, span.end)
    seconds |= {"waiting": end - begin - sum(seconds.values()), "step": end - begin}
    return {kind: round(1000 * value / steps, 2) for kind, value in seconds.items()}


def draw(traces: dict[str, dict[str, list[Span]]], picture: Path) -> None:
    """Draw the replicas of each strategy below each other."""
    sys.path.append(f"{sys.prefix}/bench")  # the packages that only benchmarks need
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(
        *(len(traces), 1),
        figsize=(9, 4),
        layout="constrained",
        gridspec_kw={"height_ratios": [len(replicas) for replicas in traces.values()]},
    )
    for axis, (strategy, replicas) in zip(axes, traces.items(), strict=True):
        draw_replicas(axis, replicas)
        axis.set_title(strategy, loc="left", fontsize=10)
    axes[-1].set_xlabel("ms")
    patches = [Patch(color=colour, label=kind) for kind, colour in COLOURS.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
    figure.savefig(picture, dpi=110)


def draw_replicas(axis: "Axes", replicas: dict[str, list[Span]]) -> None:
    """Draw the middle of a trace: a row for each replica."""
    begin = max(min(span.start for span in spans) for spans in replicas.values())
    end = min(max(span.end for span in spans) for spans in replicas.values())
    first = (begin + end - SHOWN_SECONDS) / 2
    for row, spans in enumerate(replicas.values()):
        for kind, colour in COLOURS.items():
            bars = [
                (1000 * (span.start - first), 1000 * (span.end - span.start))
                for span in spans
                if span.kind == kind
            ]
            axis.broken_barh(bars, (row - 0.4, 0.8), color=colour)
    axis.set_yticks(range(len(replicas)), list(replicas))
    axis.set_xlim(0, 1000 * SHOWN_SECONDS)
    axis.invert_yaxis()


if __name__ == "__main__":
    main()
