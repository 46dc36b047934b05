"""The training speed in metrics.jsonl."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.runtime.tensorflow_logs import import_tensorflow

import_tensorflow()

from trainer.training.results import recorder as recorder_module  # noqa: E402
from trainer.training.results.recorder import Recorder, Totals  # noqa: E402

MEASURE = lambda totals: {"loss": totals.mean_loss}  # noqa: E731


def test_the_time_of_evaluations_is_excluded_from_the_training_speed(tmp_path, monkeypatch):
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(recorder_module, "time", clock)
    recorder = Recorder(
        str(tmp_path), first_step=0, total_steps=20, every_steps=10, measure=MEASURE
    )
    for _ in range(2):
        with recorder.exclude_time():
            now[0] += 30
        now[0] += 2
        totals = Totals(steps=10, examples=1000, sums=np.ones(2))
        recorder.add(totals, learning_rate=0.1)
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["examples_per_second"] for line in lines] == [500, 500]


def test_the_speed_of_workers_is_that_of_their_steps_not_of_the_arrival_of_results(
    tmp_path, monkeypatch
):
    """Workers do 10 steps a second; the chief evaluates for 3 s, then has 30 steps at once."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(recorder_module, "time", clock)
    recorder = Recorder(
        str(tmp_path),
        first_step=5,
        total_steps=55,
        every_steps=10,
        measure=MEASURE,
        batch_size=100,
        count_steps=lambda: 5 + int(10 * now[0]),
    )
    for seconds in (1.0, 1.0, 3.0, 1e-3, 1e-3):
        now[0] += seconds
        totals = Totals(steps=10, examples=1000, sums=np.ones(2))
        recorder.add(totals, learning_rate=0.1)
    recorder.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [15, 25, 35, 45, 55]
    expected = pytest.approx([1000] * 5, rel=0.01)
    assert [line["examples_per_second"] for line in lines] == expected
    assert [line["step_ms"] for line in lines] == pytest.approx([100] * 5, rel=0.01)


def test_evaluations_of_a_trial_are_reported_as_by_hypertune(tmp_path, monkeypatch):
    recorder = Recorder(
        str(tmp_path), first_step=0, total_steps=20, every_steps=10, measure=MEASURE
    )
    file = tmp_path / "tuner" / "output.metrics"
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(file))
    recorder.add_evaluation({"loss": 0.5}, step=10)
    assert not file.exists()  # no trial
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "7")
    recorder.add_evaluation({"loss": 0.25, "auc": 0.75}, step=20)
    recorder.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.pop("timestamp") > 0 for line in lines] == [True, True]
    about = {"trial": "7", "global_step": "20", "checkpoint_path": ""}
    assert lines == [{**about, "loss": "0.25"}, {**about, "auc": "0.75"}]
