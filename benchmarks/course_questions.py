"""Measured answers to common questions in courses on distributed training.

How do time, examples/s and accuracy depend on the checkpoint interval, on synchronous or
asynchronous updates, and on the number of workers (1, 2, 4)? Writes a table (CSV) and a chart
(PNG). All train MNIST on the same number of examples. Each worker is pinned to a core, which it
shares if there are more workers than cores; the chief and the parameter server use all cores.
"""

import argparse
import csv
import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.clusters import Shape, train
from benchmarks.support.report import report

QUESTIONS = {
    "checkpoints": "checkpoint every … steps, 1 process",
    "updates": "updates, 2 workers",
    "workers": "asynchronous workers",
}
FIGURES = {
    "seconds": "start to model, s",
    "examples_per_second": "examples/s",
    "accuracy": "eval accuracy",
}
_FORMATS = {"seconds": "{:.1f}", "examples_per_second": "{:,.0f}", "accuracy": "{:.4f}"}
Row = dict[str, str | float]


@dataclass(frozen=True)
class Setting:
    """A setting to measure: its question, label, cluster and flags."""

    question: str
    label: str
    shape: Shape
    flags: tuple[str, ...] = ()


def asynchronous(workers: int) -> Shape:
    """Return a cluster of a chief, workers and one parameter server."""
    return Shape(workers=workers, ps=1, cores=_cores(workers))


def synchronous(workers: int) -> Shape:
    """Return a cluster of workers only, the first of which is the chief."""
    return Shape(chiefs=0, workers=workers, cores=_cores(workers))


def settings() -> list[Setting]:
    """Return all settings to measure."""
    return [
        *(
            Setting("checkpoints", str(n), Shape(), (f"--checkpoint-every-steps={n}",))
            for n in (10, 100, 1000)
        ),
        Setting("updates", "synchronous", synchronous(2)),
        Setting("updates", "asynchronous", asynchronous(2)),
        *(Setting("workers", _label(n), asynchronous(n)) for n in (1, 2, 4)),
    ]


def main() -> None:
    """Measure the chosen questions, and write the table and the chart of all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--questions",
        nargs="+",
        choices=list(QUESTIONS),
        default=list(QUESTIONS),
        help="measure only these, and keep the table's other rows; default: all",
    )
    parser.add_argument(
        "--output-dir", type=Path, default=Path(".trainyard/bench/course_questions")
    )
    arguments = parser.parse_args()
    path = arguments.output_dir / "table.csv"
    chosen = [setting for setting in settings() if setting.question in arguments.questions]
    kept = [row for row in _read_table(path) if row["question"] not in arguments.questions]
    rows = kept + [_measure(setting, epochs=arguments.epochs) for setting in chosen]
    rows.sort(key=lambda row: list(QUESTIONS).index(str(row["question"])))
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    _write_table(rows, path)
    _draw(rows, arguments.output_dir / "picture.png")
    if "updates" in arguments.questions:
        _report_synchronous(rows)


def _cores(workers: int) -> dict[str, list[int]]:
    available = sorted(os.sched_getaffinity(0))
    return {f"worker/{n}": [available[n % len(available)]] for n in range(workers)}


def _label(workers: int) -> str:
    num_cores = len(os.sched_getaffinity(0))
    return f"{workers} on {num_cores} cores" if workers > num_cores else str(workers)


def _measure(setting: Setting, *, epochs: int) -> Row:
    result = train(setting.shape, f"--epochs={epochs}", "--batch-size=128", *setting.flags)
    return {
        "question": setting.question,
        "setting": setting.label,
        "seconds": round(result.seconds, 1),
        "examples_per_second": round(result.examples_per_second),
        "accuracy": round(result.accuracy, 4),
    }


def _read_table(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    is_ours = all(row.get("question") in QUESTIONS and set(FIGURES) <= set(row) for row in rows)
    return [dict(row) for row in rows] if is_ours else []


def _write_table(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["question", "setting", *FIGURES])
        writer.writeheader()
        writer.writerows(rows)


def _draw(rows: list[Row], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [name for name in QUESTIONS if any(row["question"] == name for row in rows)]
    figure, axes = plt.subplots(
        len(FIGURES), len(shown), figsize=(4 * len(shown), 8), layout="constrained", squeeze=False
    )
    for column, question in enumerate(shown):
        measured = [row for row in rows if row["question"] == question]
        for line, (name, title) in enumerate(FIGURES.items()):
            axis = axes[line][column]
            bars = axis.bar(
                [str(r["setting"]) for r in measured], [float(r[name]) for r in measured]
            )
            axis.bar_label(bars, fmt=_FORMATS[name])
            axis.set_ylabel(title if column == 0 else "")
            axis.set_title(QUESTIONS[question] if line == 0 else "")
            axis.set_ylim(*_limits([float(row[name]) for row in rows], name))
    figure.savefig(path, dpi=110)


def _limits(values: list[float], name: str) -> tuple[float, float]:
    """Return the limits of an axis for all questions; accuracies start near the lowest."""
    if name != "accuracy":
        return 0.0, 1.15 * max(values)
    spread = max(max(values) - min(values), 0.002)
    return min(values) - spread, min(max(values) + spread / 2, 1.0)


def _report_synchronous(rows: list[Row]) -> None:
    speeds = {str(row["setting"]): float(row["examples_per_second"]) for row in rows}
    report(
        "synchronous against asynchronous updates, 2 workers",
        ours=speeds["synchronous"],
        theirs=speeds["asynchronous"],
        unit="examples/s",
    )


if __name__ == "__main__":
    main()
