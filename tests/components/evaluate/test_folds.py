"""Folds: the rows of each, the processes that train on them, and the words about both."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from components.errors import StepError
from components.evaluate import fold_training, folds
from components.evaluate.case import Case
from components.evaluate.gate.options import GateOptions
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from components.prepare_examples.tfrecords import shards
from tests.support.data.csv_tables import write_table
from trainer.errors import ConfigError

CASE = Case(model_dir="", examples_dir="", thresholds="{}", flags=("--workload=t",))
WAIT_SECONDS = 60
FORKED = pytest.mark.linux("forks here, in which what a test replaces stays replaced")


def manifest_of(keys, *, ratios=(0.6, 0.2, 0.2)):
    """Return a manifest of rows with these keys."""
    ends = [0, *np.cumsum([round(ratio * len(keys)) for ratio in ratios[:2]]), len(keys)]
    splits = {}
    for at, name in enumerate(("train", "eval", "test")):
        own = np.array(keys, np.uint64)[ends[at] : ends[at + 1]]
        shard = {"file": name, "num_examples": len(own), "keys": own.tobytes().hex()}
        splits[name] = {"num_examples": len(own), "shards": [shard]}
    return {"splits": splits}


@pytest.mark.parametrize("seed", range(5))
def test_no_fold_trains_on_a_group_that_it_predicts_and_each_row_is_predicted_once(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 11))
    groups = random.integers(0, 2**64, 4 * count, np.uint64)
    keys = groups[[*range(len(groups)), *random.integers(0, len(groups), 100)]]

    dealt = folds.deal_folds(keys, count, eval_share=0.2)

    assert len(dealt) == count
    tested = np.concatenate([fold["test"] for fold in dealt])
    assert sorted(tested) == list(range(len(keys)))
    for fold in dealt:
        rows = np.concatenate(list(fold.values()))
        assert sorted(rows) == list(range(len(keys)))
        assert all(len(fold[name]) for name in ("train", "eval", "test"))
        own = [set(keys[fold[name]]) for name in ("train", "eval", "test")]
        assert sum(map(len, own)) == len(set(keys))


def test_folds_are_as_large_and_the_share_of_eval_is_kept():
    keys = np.arange(150, dtype=np.uint64)
    fold, *_ = folds.deal_folds(keys, 5, eval_share=0.2)
    assert {name: len(rows) for name, rows in fold.items()} == {"test": 30, "eval": 30, "train": 90}
    fold, *_ = folds.deal_folds(keys, 5, eval_share=0.1)
    assert len(fold["train"]) == 105


def test_few_rows_are_judged_by_folds_and_more_if_it_is_asked():
    few, many = manifest_of(range(150)), manifest_of(range(600))
    default = GateOptions()
    assert folds.num_folds(few, default) == 5
    assert folds.num_folds(many, default) == 0
    assert folds.num_folds(few, GateOptions(folds=0)) == 0
    assert folds.num_folds(many, GateOptions(folds=10)) == 10
    assert "5 folds of all 150 rows judge the model;" in folds.folds_note(few, default)
    assert "gate.folds=0" in folds.folds_note(few, default)
    assert folds.folds_note(many, default) == ""


@pytest.mark.parametrize(
    ("manifest", "declared", "message"),
    [
        (manifest_of(range(150)), {"by": "sold_on"}, "the split is by sold_on"),
        (manifest_of([1, 2, 3, 4] * 50), None, "4 rows, or groups of rows, are fewer than 10"),
        (
            {"splits": {"train": {"num_examples": 90, "shards": []}}},
            None,
            "only rows of tables",
        ),
        (
            {"splits": {"train": {"num_examples": 30_000, "shards": []}}},
            None,
            "30,000 rows are",
        ),
    ],
)
def test_rows_that_random_folds_must_not_mix_are_refused(manifest, declared, message):
    assert folds.num_folds({**manifest, "split": declared}, GateOptions()) == 0
    with pytest.raises(ConfigError, match=message):
        folds.num_folds({**manifest, "split": declared}, GateOptions(folds=5))


@pytest.mark.parametrize(
    ("more", "options", "num_groups"),
    [
        ('ignored=["g"]', {}, 60),
        ('ignored=["g"], group_by=["g"]', {}, 20),
        ('only_read=[Category("g")]', {"split": {"by": "g", "eval": "g1", "test": "g2"}}, 0),
    ],
)
def test_a_dataset_has_the_hash_of_each_row_unless_its_split_is_declared(
    tmp_path, more, options, num_groups
):
    rows = [{"n": n, "g": f"g{n % 20}", "y": ("yes", "no")[n // 20 % 2]} for n in range(60)]
    path = write_table(tmp_path / "rows.csv", rows)
    declared = f'Table([Number("n")], label=Binary("y", positive="yes"), {more})'
    (tmp_path / "own").mkdir()
    (tmp_path / "own/workload.py").write_text(
        f"from trainyard import Binary, Category, Number, Table\nworkload = {declared}\n"
    )
    ratios = {"train": 0.5, "eval": 0.25, "test": 0.25}
    chosen = PrepareOptions(files=(path,), ratios=ratios, **options)

    manifest = prepare(
        str(tmp_path / "own"), output_dir=tmp_path / "out", data_dir=tmp_path, options=chosen
    )

    keys = fold_training.keys_of(fold_training.shards_of(manifest, shards.SPLITS))
    assert len(set(keys.tolist())) == num_groups
    assert len(keys) == (60 if num_groups else 0)


def test_many_rows_have_no_hashes(monkeypatch):
    entries = [{"num_examples": 10, "keys": "00"}, {"num_examples": 11}]
    assert shards.limit_keys(entries) == entries
    monkeypatch.setattr(shards, "MOST_KEYS", 20)
    assert shards.limit_keys(entries) == [{"num_examples": 10}, {"num_examples": 11}]


@FORKED
def test_a_failing_fold_is_named_with_the_end_of_its_log_and_ends_the_others(tmp_path, monkeypatch):
    def train(folder: Path, *_) -> None:
        (folder / "pid").write_text(str(os.getpid()))
        if folder.name == "fold 1 of 2":
            while not (folder.parent / "fold 2 of 2/pid").exists():
                time.sleep(0.01)
            (folder / fold_training.LOG_FILE).write_text("reading\nthe loss is NaN\n")
            sys.exit(3)
        time.sleep(WAIT_SECONDS)

    monkeypatch.setattr(fold_training, "_process", train)
    monkeypatch.setattr(fold_training, "num_cores", lambda: 2)
    own = [tmp_path / f"fold {number} of 2" for number in (1, 2)]
    for folder in own:
        folder.mkdir()

    with pytest.raises(StepError, match=r"fold 1 of 2 ended with code 3: the loss is NaN"):
        list(fold_training.train_all(own, (), timeout_seconds=WAIT_SECONDS))

    assert not psutil.pid_exists(int((own[1] / "pid").read_text()))


@FORKED
def test_a_fold_that_does_not_end_is_named_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(fold_training, "_process", lambda *_: time.sleep(WAIT_SECONDS))
    folder = tmp_path / "fold 1 of 1"
    folder.mkdir()
    with pytest.raises(StepError, match=r"within 0\.2 s; raise gate\.timeout_sec"):
        list(fold_training.train_all([folder], (), timeout_seconds=0.2))


KILLED = """
import sys, time
from pathlib import Path
from components.evaluate import fold_training
from trainer import task
task.main = lambda flags: print(flags, flush=True) or time.sleep({seconds})
fold_training._keep_label = lambda *_: None
list(fold_training.train_all([Path(sys.argv[1])], ["--workload=mnist"], timeout_seconds={seconds}))
"""


@FORKED
@pytest.mark.processes
def test_the_processes_end_with_a_killed_step(tmp_path):
    folder = tmp_path / "fold 1 of 1"
    folder.mkdir()
    code = KILLED.format(seconds=WAIT_SECONDS)
    step = subprocess.Popen([sys.executable, "-c", code, str(folder)])
    log = folder / fold_training.LOG_FILE
    deadline = time.monotonic() + WAIT_SECONDS
    while not (log.exists() and log.read_text()):
        assert time.monotonic() < deadline, "the fold has not started"
        time.sleep(0.05)
    [fold] = psutil.Process(step.pid).children()

    step.send_signal(signal.SIGKILL)
    step.wait()

    fold.wait(timeout=WAIT_SECONDS)
    assert "--strategy=single" in log.read_text()


def test_without_the_trainers_flags_no_fold_is_trained(tmp_path):
    (tmp_path / "manifest.json").write_text('{"workload": "t", "splits": {}}')
    case = replace(CASE, examples_dir=str(tmp_path), flags=())
    assert folds.cross_validate(case) is None
