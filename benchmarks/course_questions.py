"""The questions that courses on distributed training ask, answered by measuring on this machine.

How do time, examples a second and accuracy depend on the checkpoint interval? On synchronous
against asynchronous updates? On 1, 2 or 4 workers? Writes a table (CSV) and one picture (PNG).
"""

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.clusters import Result, Shape, report, train

SINGLE = Shape()
FIGURES = {
    "seconds": "whole job, s",
    "examples_per_second": "examples/s while training",
    "accuracy": "accuracy on the eval split",
}


@dataclass(frozen=True)
class Setting:
    """One answer: the question it belongs to, its label, and how to measure it."""

    question: str
    label: str
    shape: Shape
    flags: tuple[str, ...] = ()


def asynchronous(workers: int) -> Shape:
    """A chief, workers and one parameter server."""
    return Shape(workers=workers, ps=1)


def synchronous(workers: int) -> Shape:
    """Workers alone, the first of which is chief."""
    return Shape(chiefs=0, workers=workers)


SETTINGS = [
    *(
        Setting("checkpoint every … steps", str(n), SINGLE, (f"--checkpoint-every-steps={n}",))
        for n in (50, 200, 1000)
    ),
    Setting("updates, 2 workers", "synchronous", synchronous(2)),
    Setting("updates, 2 workers", "asynchronous", asynchronous(2)),
    *(Setting("asynchronous workers", str(n), asynchronous(n)) for n in (1, 2, 4)),
]


def main() -> None:
    """Measures every setting and writes the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--output-dir", type=Path, default=Path(".trainyard/bench/course_questions")
    )
    arguments = parser.parse_args()
    rows = [_measure(setting, epochs=arguments.epochs) for setting in SETTINGS]
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    _write_table(rows, arguments.output_dir / "table.csv")
    _draw(rows, arguments.output_dir / "picture.png")
    _report_synchronous(rows)


def _measure(setting: Setting, *, epochs: int) -> dict[str, str | float]:
    result: Result = train(setting.shape, f"--epochs={epochs}", *setting.flags)
    return {
        "question": setting.question,
        "setting": setting.label,
        "seconds": round(result.seconds, 1),
        "examples_per_second": round(result.examples_per_second),
        "accuracy": round(result.accuracy, 4),
    }


def _write_table(rows: list[dict[str, str | float]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _draw(rows: list[dict[str, str | float]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    questions = list(dict.fromkeys(str(row["question"]) for row in rows))
    figure, axes = plt.subplots(
        len(FIGURES), len(questions), figsize=(4 * len(questions), 8), layout="constrained"
    )
    for column, question in enumerate(questions):
        asked = [row for row in rows if row["question"] == question]
        for line, (name, title) in enumerate(FIGURES.items()):
            axis = axes[line][column]
            bars = axis.bar([str(r["setting"]) for r in asked], [float(r[name]) for r in asked])
            axis.bar_label(bars)
            axis.set_ylabel(title if column == 0 else "")
            axis.set_title(question if line == 0 else "")
            axis.margins(y=0.15)
    figure.savefig(path, dpi=110)


def _report_synchronous(rows: list[dict[str, str | float]]) -> None:
    speeds = {str(row["setting"]): float(row["examples_per_second"]) for row in rows}
    report(
        "synchronous against asynchronous updates, 2 workers",
        ours=speeds["synchronous"],
        theirs=speeds["asynchronous"],
        unit="examples/s",
    )


if __name__ == "__main__":
    main()
