"""The curve of a CIFAR-10 run, from the lines of its metrics."""

import pytest

from benchmarks.cifar10_curve import flags_of, make_curve, settings_of

pytestmark = pytest.mark.fast


def train_line(step, *, step_ms):
    return {"step": step, "split": "train", "step_ms": step_ms, "loss": 2.0, "accuracy": 0.5}


def eval_line(step, accuracy):
    return {"step": step, "split": "eval", "loss": 1.0, "accuracy": accuracy}


def test_each_epoch_is_a_row_with_the_time_of_its_steps():
    lines = [
        train_line(50, step_ms=600),
        train_line(100, step_ms=600),
        eval_line(100, 0.4),
        train_line(200, step_ms=300),
        eval_line(200, 0.7),
    ]
    first, second = make_curve(lines, batch_size=256)
    assert (first["epoch"], first["minutes"], first["eval_accuracy"]) == (1, 1.0, 0.4)
    assert (second["epoch"], second["minutes"], second["eval_accuracy"]) == (2, 1.5, 0.7)
    assert second["examples_per_second"] == pytest.approx(256 / 0.3)


def test_steps_that_are_reported_after_the_evaluation_count_in_their_epoch():
    lines = [train_line(100, step_ms=600), eval_line(150, 0.4), train_line(200, step_ms=600)]
    first, second = make_curve([*lines, eval_line(300, 0.7)], batch_size=256)
    assert (first["minutes"], second["minutes"]) == (1.5, 3.0)
    assert first["examples_per_second"] == second["examples_per_second"] == pytest.approx(256 / 0.6)


def test_steps_that_a_killed_job_did_again_count_once():
    lines = [train_line(100, step_ms=600), eval_line(100, 0.4), train_line(150, step_ms=9)]
    again = [train_line(150, step_ms=600), train_line(200, step_ms=600), eval_line(200, 0.7)]
    once = [*lines[:2], *again]
    assert make_curve([*lines, *again], batch_size=256) == make_curve(once, batch_size=256)


def test_the_named_run_and_the_classic_nets_have_settings():
    assert settings_of("fast")["mixed_precision"] is True
    assert "--mixed-precision" in flags_of(settings_of("fast"))
    assert settings_of("resnet20")["model"] == "resnet20"
    assert not any("mixed" in flag for flag in flags_of(settings_of("resnet20")))
