"""Evaluations report their progress; checkpoints that the evaluator cannot read."""

import shutil
from types import SimpleNamespace

import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.training.checkpoint import Checkpoints, Criterion, list_checkpoints  # noqa: E402
from trainer.training.results import evaluator  # noqa: E402
from trainer.workloads import Regression  # noqa: E402


@pytest.fixture
def saved(tmp_path):
    criterion = Criterion(metric="accuracy", is_lower_better=False)
    checkpoints = Checkpoints(str(tmp_path), keep=2, criterion=criterion)
    checkpoints.save({"global_step": tf.constant(5, tf.int64), "weights": tf.ones([10])})
    checkpoints.wait()
    return list_checkpoints(str(tmp_path))


def test_each_table_of_an_evaluation_is_progress():
    step, reports = object.__new__(evaluator.EvalStep), []
    step._workload = SimpleNamespace(label=Regression("y"), labels=())
    step._tables = [({}, tf.ones([2]))] * 3
    step._num_unlabelled, step._report_progress = 0, lambda: reports.append(1)
    for number, _ in enumerate(step._labelled()):
        assert len(reports) == number + 1
    assert len(reports) == 4


def evaluate_new(tmp_path):
    one = object.__new__(evaluator._Evaluator)
    folders, config = SimpleNamespace(checkpoints=str(tmp_path)), SimpleNamespace(fresh=True)
    one._job, one._seen = SimpleNamespace(folders=folders, config=config), set()
    one.evaluate_new()


def test_a_damaged_checkpoint_is_reported(saved, tmp_path, caplog):
    index = tmp_path / "step-0000000005/state.index"
    index.write_bytes(b"x" * index.stat().st_size)
    assert list_checkpoints(str(tmp_path)) == saved
    evaluate_new(tmp_path)
    assert "step 5 is not evaluated: the checkpoint " in caplog.text
    assert "cannot be read" in caplog.text


def test_a_checkpoint_deleted_before_its_evaluation_is_no_damage(
    saved, tmp_path, monkeypatch, caplog
):
    caplog.set_level("INFO")
    monkeypatch.setattr(evaluator, "list_checkpoints", lambda directory: saved)
    shutil.rmtree(saved[0].path)
    evaluate_new(tmp_path)
    assert [one.getMessage() for one in caplog.records] == [
        "step 5 was deleted before it could be evaluated"
    ]
