"""Trials of a tuning job by folds of train and eval."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.evaluate import fold_trial
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.csv_tables import write_table
from tests.support.processes.everything import EVERYTHING
from trainer.config.train_config import TrainConfig
from trainer.errors import ConfigError
from vertex_local.tests.support.forks import Fork, forks_with

pytestmark = pytest.mark.timeout(200)

TIMEOUT_SECONDS = 120
WORKLOAD = """
from trainyard import Binary, Number, Table
workload = Table([Number("n")], label=Binary("y", positive="yes"))
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A folder with a workload and its `examples`, of 100 rows."""
    folder, dice = tmp_path_factory.mktemp("trial"), random.Random(3)
    rows = [
        {"n": dice.gauss(2 * (number % 2), 1), "y": ("yes", "no")[number % 2]}
        for number in range(100)
    ]
    path = write_table(folder / "rows.csv", rows)
    (folder / "own").mkdir()
    (folder / "own/workload.py").write_text(WORKLOAD)
    ratios = {"train": 0.6, "eval": 0.2, "test": 0.2}
    options = PrepareOptions(files=(path,), ratios=ratios)
    prepare(str(folder / "own"), output_dir=folder / "examples", data_dir=folder, options=options)
    for path in (folder / "examples").glob("test-*"):
        path.write_bytes(b"poison")  # which no trial reads
    return folder


@pytest.fixture
def start(prepared, tmp_path) -> Callable[..., Fork]:
    """Start a trial by two folds, as a tuning job does."""

    def start_(*flags: str) -> Fork:
        folder = tmp_path / "1"
        return forks_with(*EVERYTHING).start(
            [
                *["python", "-m", "components.evaluate.fold_trial", "--folds=2"],
                f"--workload={prepared}/own",
                f"--examples-dir={prepared}/examples",
                *["--batch-size=16", "--strategy=single", *flags],
            ],
            log_path=tmp_path / "1.log",
            CLOUD_ML_TRIAL_ID="1",
            CLOUD_ML_HP_METRIC_FILE=str(tmp_path / "1.metrics"),
            AIP_MODEL_DIR=f"{folder}/model/",
            AIP_CHECKPOINT_DIR=f"{folder}/checkpoints/",
            AIP_TENSORBOARD_LOG_DIR=f"{folder}/logs/",
        )

    return start_


def ended(process: Fork, code: int = 0) -> str:
    output, _ = process.communicate(TIMEOUT_SECONDS)
    assert process.returncode == code, output
    return output


def reported(path: Path) -> list[tuple[int, float]]:
    lines = map(json.loads, path.read_text().splitlines())
    return [(int(line["global_step"]), float(line["loss"])) for line in lines]


def test_a_killed_trial_continues_and_reports_the_mean_over_all_folds(start, tmp_path):
    metrics, log = tmp_path / "1.metrics", tmp_path / "1.log"
    os.mkfifo(metrics)  # which no one reads: the trial waits at its first report until it is killed
    process = start("--steps=200")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while "fold 1 of 2: loss" not in log.read_text():
        assert time.monotonic() < deadline, "no fold is trained"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(TIMEOUT_SECONDS)
    first = tmp_path / "1/checkpoints/folds/fold 1 of 2/logs/metrics.jsonl"
    *lines, last = first.read_text().splitlines()
    first.write_text("\n".join([*lines, json.dumps({**json.loads(last), "loss": 100.0}), ""]))
    metrics.unlink()

    output = ended(start("--steps=200"))

    [(_, alone), (number, mean)] = reported(metrics)
    assert (alone, number) == (100, 2)  # the first fold was not trained again
    assert mean == pytest.approx(100 / 2, abs=2)
    assert "fold 2 of 2: loss" in output
    assert not list((tmp_path / "1").rglob("fold *"))


def test_with_patience_the_best_evaluation_of_a_fold_counts(tmp_path):
    (tmp_path / "logs").mkdir()
    values = [{"loss": 0.5, "auc": 0.7}, {"loss": 0.2, "auc": 0.9}, {"loss": 0.3, "auc": 0.8}]
    lines = [{"split": "eval", **value} for value in values] + [{"split": "train", "loss": 0.1}]
    (tmp_path / "logs/metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def measured(**settings) -> float:
        return fold_trial.measured(
            tmp_path, TrainConfig(workload="mnist", examples_dir="-", **settings)
        )

    assert measured() == 0.3
    assert measured(patience=2) == 0.2
    assert measured(patience=2, best_metric="auc") == 0.9
    assert measured(patience=2, best_metric="auc:min") == 0.7


def test_a_metric_that_a_fold_does_not_have_ends_the_trial_with_the_reason(start, tmp_path):
    output = ended(start("--steps=5", "--best-metric=recall"), 2)
    assert "recall" in output
    assert "gate.folds=0" in output


def test_too_many_folds_of_train_and_eval_are_refused(prepared):
    manifest = json.loads((prepared / "examples/manifest.json").read_text())
    few = dict(manifest["splits"], train={"num_examples": 0, "shards": []})
    folder = prepared / "few"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({**manifest, "splits": few}))
    with pytest.raises(ConfigError, match=r"gate\.folds is 20, but .* fewer than 40"):
        fold_trial.deal_rows(str(folder), 20)
