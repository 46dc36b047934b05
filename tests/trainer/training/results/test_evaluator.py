"""Checkpoints that the evaluator cannot read."""

import shutil

import tensorflow as tf

from tests.trainer.support.jobs import new_job
from trainer.cluster.servers import announce_end
from trainer.training.checkpoint import Checkpoints, Criterion, list_checkpoints
from trainer.training.results import evaluator


def test_a_damaged_checkpoint_is_reported_and_one_deleted_meanwhile_is_no_damage(
    examples_dir, tmp_path, monkeypatch, caplog
):
    caplog.set_level("INFO")
    job = new_job(examples_dir, tmp_path, fresh=True)
    folder = job.folders.checkpoints
    checkpoints = Checkpoints(
        folder, keep=2, criterion=Criterion(metric="accuracy", is_lower_better=False)
    )
    for step in (5, 6):
        checkpoints.save({"global_step": tf.constant(step, tf.int64), "weights": tf.ones([10])})
    checkpoints.wait()
    _, deleted = saved = list_checkpoints(folder)
    index = tmp_path / "checkpoints/step-0000000005/state.index"
    index.write_bytes(b"x" * index.stat().st_size)
    assert list_checkpoints(folder) == saved
    shutil.rmtree(deleted.path)
    monkeypatch.setattr(evaluator, "list_checkpoints", lambda directory: saved)
    announce_end(folder, code=7, message="training is done")

    assert evaluator.evaluate_checkpoints(job, old_end=None) == 7

    first, second, _ = (one[2] for one in caplog.record_tuples if one[0].startswith("trainer"))
    assert first.startswith("step 5 is not evaluated: the checkpoint ")
    assert "cannot be read" in first
    assert second == "step 6 was deleted before it could be evaluated"
