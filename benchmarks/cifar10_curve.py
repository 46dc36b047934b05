"""Training of a CIFAR-10 model to the end, with its accuracy curve; `make train-cifar10`.

It takes many minutes, so `make bench` leaves it out. After an interruption it resumes; the time in
between is not counted.
"""

import argparse
import csv
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.support.clusters import examples, read_metrics, test_metrics
from benchmarks.support.report import report
from pipelines.config.built_in import cifar10

GOALS = {"fast": 0.94, "resnet20": 0.91}
RESNET = {"epochs": 60, "batch_size": 128, "mixed_precision": False}


def main() -> None:
    """Train, write a curve.csv for each seed and one curve.png, and print the test accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="fast", help="default: %(default)s")
    parser.add_argument("--epochs", type=int, help="default: the recipe's")
    parser.add_argument(
        "--seeds", type=int, default=1, help="trainings, one after the other; default: %(default)s"
    )
    parser.add_argument("--output-dir", type=Path, help="default: .trainyard/cifar10/MODEL")
    arguments = parser.parse_args()
    folder = arguments.output_dir or Path(".trainyard/cifar10") / arguments.model
    settings = settings_of(arguments.model)
    settings["epochs"] = arguments.epochs or settings["epochs"]
    curves, accuracies = [], []
    for seed in range(arguments.seeds):
        one = folder / f"seed-{seed}"
        _train(one, {**settings, "seed": seed})
        rows = make_curve(read_metrics(one), batch_size=settings["batch_size"])
        _write_table(rows, one / "curve.csv")
        curves.append(rows)
        accuracies.append(test_metrics(one, examples("cifar10"))["accuracy"])
        sys.stderr.write(f"seed {seed}: test accuracy {accuracies[-1]:.4f}\n")
    _draw(curves, folder / "curve.png", title=f"CIFAR-10, {arguments.model}")
    report(
        f"cifar10 {arguments.model}, {settings['epochs']} epochs, {arguments.seeds} seeds",
        ours=statistics.mean(accuracies),
        theirs=GOALS.get(arguments.model, GOALS["resnet20"]),
        unit="test accuracy, theirs is the goal",
    )


def settings_of(model: str) -> dict[str, Any]:
    """Return the trainer's settings for a model: the named run's if it trains this model."""
    named = cifar10().train.given()
    return {**(named if named["model"] == model else RESNET), "model": model}


def make_curve(lines: list[dict[str, Any]], *, batch_size: int) -> list[dict[str, float]]:
    """Return a row for each epoch: minutes of training so far, examples/s, and the metrics.

    Steps that a resumed job repeated count once.
    """
    rows, seconds, step, since = [], 0.0, 0, 0
    for line in _last_of_each_step(lines):
        if line["split"] == "train":
            seconds += line["step_ms"] / 1000 * (line["step"] - step)
            step, train = line["step"], line
        elif line["step"] > since:
            # The last steps of an epoch are reported only after its evaluation.
            now = seconds + train["step_ms"] / 1000 * (line["step"] - step)
            spent = now - (rows[-1]["minutes"] * 60 if rows else 0.0)
            rows.append(
                {
                    "epoch": len(rows) + 1,
                    "step": line["step"],
                    "minutes": now / 60,
                    "examples_per_second": (line["step"] - since) * batch_size / max(spent, 1e-9),
                    "train_loss": train["loss"],
                    "train_accuracy": train["accuracy"],
                    "eval_loss": line["loss"],
                    "eval_accuracy": line["accuracy"],
                }
            )
            since = line["step"]
    return rows


def _last_of_each_step(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    latest = {(line["step"], line["split"]): line for line in lines}
    return [latest[key] for key in sorted(latest, key=lambda key: (key[0], key[1] != "train"))]


def flags_of(settings: dict[str, Any]) -> list[str]:
    """Return settings as flags of the trainer."""
    flags = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
    return [
        name if value is True else f"{name}={value}"
        for name, value in flags.items()
        if value is not False
    ]


def _train(folder: Path, settings: dict[str, Any]) -> None:
    folders = ["--examples-dir", str(examples("cifar10")), "--output-dir", str(folder)]
    command = [sys.executable, "-m", "trainer.task", "--workload", "cifar10", *folders]
    command += [*flags_of(settings), "--checkpoint-every-seconds=60", "--steps-per-call=10"]
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(code)


def _write_table(rows: list[dict[str, float]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows([f"{value:.5g}" for value in row.values()] for row in rows)
    shown = ("epoch", "minutes", "examples_per_second", "train_loss", "eval_accuracy")
    lines = [[f"{row[name]:.4g}" for name in shown] for row in rows]
    for line in [shown, *lines]:
        sys.stderr.write("  ".join(f"{value:>19}" for value in line) + "\n")


def _draw(curves: list[list[dict[str, float]]], path: Path, *, title: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, color in (("eval_accuracy", "C0"), ("train_accuracy", "C1")):
        final = statistics.mean(rows[-1][name] for rows in curves)
        label = f"{name.replace('_', ' ')} (final {final:.4f})"
        for rows in curves:
            epochs = [row["epoch"] for row in rows]
            axis.plot(epochs, [row[name] for row in rows], marker="o", color=color, label=label)
            label = "_"  # one entry of the legend for all seeds
    axis.set(title=title, xlabel="epoch", ylabel="accuracy", xlim=(0.5, None))
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
