"""The learning rate schedule, and the warnings about a change of it."""

import dataclasses
import re

import pytest
import tensorflow as tf

from trainer.training.optimizers.schedule import Schedule

STEADY = Schedule(peak=0.1, total_steps=100, warmup=0.0, kind="constant")


def test_the_schedule_rises_to_its_peak_and_falls_to_zero():
    schedule = Schedule(peak=2.0, total_steps=100)
    rates = [float(schedule.rate(tf.constant(step))) for step in range(1, 101)]
    assert max(rates) == pytest.approx(2.0, rel=1e-3)
    assert rates[0] < 0.2
    assert rates[-1] == pytest.approx(0, abs=1e-6)
    assert float(schedule.rate(tf.constant(500))) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "warmup", "expected"),
    [
        ("cosine", 0.0, [2.0, 1.0, 0.0]),
        ("linear", 0.0, [2.0, 1.0, 0.0]),
        ("constant", 0.0, [2.0, 2.0, 2.0]),
        ("linear", 0.2, [0.1, 1.25, 0.0]),
        ("constant", 0.2, [0.1, 2.0, 2.0]),
    ],
)
def test_a_schedule_follows_its_kind_after_the_warmup(kind, warmup, expected):
    schedule = Schedule(peak=2.0, total_steps=100, warmup=warmup, kind=kind)
    rates = [float(schedule.rate(tf.constant(step))) for step in (1, 50, 100)]
    assert rates == pytest.approx(expected, abs=0.03)


def test_a_schedule_without_a_jump_gives_no_warning():
    schedule = Schedule(peak=0.1, total_steps=100)
    same = dataclasses.asdict(schedule)
    assert schedule.warning(step=50, last_step=100, old=same) == ""
    assert schedule.warning(step=50, last_step=100, old={}) == ""
    assert STEADY.warning(step=50, last_step=500, old=dataclasses.asdict(STEADY)) == ""
    too_long = schedule.warning(step=0, last_step=500, old={})
    assert re.search("learning rate is zero from step 101.*--schedule-steps", too_long)
    lower = dataclasses.replace(schedule, peak=0.05)
    warning = lower.warning(step=14, last_step=100, old=same)
    assert re.search(
        r"learning rate of step 15 is 0\.05 \(one_cycle over 100 steps.*not 0\.1", warning
    )
    assert "--schedule-steps" not in warning


def test_a_schedule_that_has_ended_is_not_recommended():
    longer, old = (Schedule(peak=0.1, total_steps=steps) for steps in (120, 60))
    ended = longer.warning(step=60, last_step=120, old=dataclasses.asdict(old))
    assert "not 0 as in" in ended
    assert "--schedule-steps" not in ended
