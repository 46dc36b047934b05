"""The training speed in metrics.jsonl."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.training.results import recorder as recorder_module
from trainer.training.results.recorder import Recorder, Totals


@pytest.fixture
def now(monkeypatch):
    """The seconds of the recorder's clock, in a list."""
    seconds = [0.0]
    clock = SimpleNamespace(monotonic=lambda: seconds[0], time=time.time)
    monkeypatch.setattr(recorder_module, "time", clock)
    return seconds


def new_recorder(folder, **options):
    options = {"first_step": 0, "total_steps": 20, "every_steps": 10, **options}
    return Recorder(str(folder), measure=lambda totals: {"loss": totals.mean_loss}, **options)


def add_ten_steps(recorder):
    recorder.add(Totals(steps=10, examples=1000, sums=np.ones(2)), learning_rate=0.1)


def close(recorder, folder):
    """Close; return the lines."""
    recorder.close()
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_time_of_evaluations_is_excluded_from_the_training_speed(tmp_path, now):
    recorder = new_recorder(tmp_path)
    for _ in range(2):
        with recorder.exclude_time():
            now[0] += 30
        now[0] += 2
        add_ten_steps(recorder)
    assert [line["examples_per_second"] for line in close(recorder, tmp_path)] == [500, 500]


def test_the_speed_of_workers_is_that_of_their_steps_not_of_the_arrival_of_results(tmp_path, now):
    """Workers do 10 steps a second; the chief evaluates for 3 s, then has 30 steps at once."""
    recorder = new_recorder(
        tmp_path,
        first_step=5,
        total_steps=55,
        batch_size=100,
        count_steps=lambda: 5 + int(10 * now[0]),
    )
    for seconds in (1.0, 1.0, 3.0, 1e-3, 1e-3):
        now[0] += seconds
        add_ten_steps(recorder)
    lines = close(recorder, tmp_path)
    assert [line["step"] for line in lines] == [15, 25, 35, 45, 55]
    expected = pytest.approx([1000] * 5, rel=0.01)
    assert [line["examples_per_second"] for line in lines] == expected
    assert [line["step_ms"] for line in lines] == pytest.approx([100] * 5, rel=0.01)


def test_evaluations_of_a_trial_are_reported_as_by_hypertune(tmp_path, monkeypatch):
    recorder = new_recorder(tmp_path)
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
