"""Trial of a tuning job by folds: `python -m components.evaluate.fold_trial --folds=5 FLAGS`.

The rows of train and eval are dealt into folds, and the flags of the trainer are tried once with
each fold as the eval split; the test split is not read. The mean of the metric over the folds so
far is reported to the tuning job, with their number as the step.
"""

import argparse
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from components.errors import StepError, exit_code_of
from components.evaluate.fold_training import OFF, Array, SplitRows, deal, train_all
from components.evaluate.folds import num_folds
from components.evaluate.gate.options import GateOptions
from components.prepare_examples.output.publish import MANIFEST
from components.shared.text.json_object import read_object
from components.time_limit import A_DAY_SECONDS
from trainer import paths
from trainer.config.train_config import TrainConfig, parse_flags, resolve_folders
from trainer.metrics.directions import name_and_direction
from trainer.training.results.tuning import report_to_tuner

SPLITS = ("train", "eval")

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Train on the folds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--folds", type=int, required=True)
    arguments, flags = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return exit_code_of(lambda: run_trial(flags, count=arguments.folds))


def run_trial(flags: Sequence[str], *, count: int) -> None:
    """Train on each of some folds, and report the mean of the metric after each.

    A trial that was interrupted continues in its output folder.

    Raises:
        ConfigError: the rows cannot be dealt into folds.
        StepError: a training fails, or the metric of a fold is not a number.
        DataError: a file of the dataset is damaged.
    """
    config = parse_flags(flags)
    output = resolve_folders("", os.environ).checkpoints
    is_remote = paths.is_in_bucket(output)
    root = Path(tempfile.mkdtemp() if is_remote else output, "folds")
    parts, rows = deal_rows(str(paths.local_path(config.examples_dir)), count)
    is_eval = [parts == number for number in range(count)]
    folders = rows.write_all(
        root,
        [{"train": np.flatnonzero(~chosen), "eval": np.flatnonzero(chosen)} for chosen in is_eval],
    )
    metric, _ = name_and_direction(config.best_metric)
    values, trained = list[float](), set[Path]()
    for ended in train_all(folders, flags, timeout_seconds=A_DAY_SECONDS):
        trained.add(ended)
        for folder in folders[len(values) :]:
            if folder not in trained:  # so that a step means the same folds in every trial
                break
            values.append(measured(folder, config))
            mean = statistics.fmean(values)
            logger.info("%s: %s %.4f, mean %.4f", folder.name, metric, values[-1], mean)
            report_to_tuner({metric: mean}, step=len(values))
    shutil.rmtree(root, ignore_errors=True)


def deal_rows(examples_dir: str, count: int) -> tuple[Array, SplitRows]:
    """Return the fold of each row of train and eval, and the rows.

    Raises:
        ConfigError: the rows cannot be dealt into folds.
    """
    manifest = read_object(Path(examples_dir, MANIFEST), "splits", "workload")
    kept = {name: split for name, split in manifest["splits"].items() if name in SPLITS}
    num_folds({**manifest, "splits": kept}, GateOptions(folds=count))
    rows = SplitRows(examples_dir, manifest, SPLITS)
    return deal(rows.keys, count), rows


def measured(folder: Path, config: TrainConfig) -> float:
    """Return the metric of a fold's last evaluation, or with patience of the best one."""
    metric, is_lower_better = name_and_direction(config.best_metric)
    lines = (folder / "logs/metrics.jsonl").read_text().splitlines()
    evaluations = [line for line in map(json.loads, lines) if line["split"] == "eval"]
    values = [line[metric] for line in evaluations if line[metric] is not None]
    if not values or evaluations[-1][metric] is None:
        raise StepError(
            f"{metric} is not a number in {folder.name}; give another train.best_metric; {OFF}"
        )
    if config.patience is None:
        return float(values[-1])
    return float(min(values) if is_lower_better else max(values))


if __name__ == "__main__":
    sys.exit(main())
