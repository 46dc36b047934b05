"""Evaluations beside asynchronous training: the chief goes on scheduling steps."""

import json
import logging
import math
import threading

import numpy as np
import pytest

from tests.trainer.support.jobs import CPU, new_job, read_lines
from trainer.cluster.tf_config import Cluster
from trainer.errors import InputError
from trainer.metrics.decision import DecisionRule
from trainer.training.assembly import assemble
from trainer.training.checkpoint import list_checkpoints
from trainer.training.model.flat_model import build_served_model
from trainer.training.results.recorder import Totals
from trainer.training.results.results import Results

CLUSTER = {"chief": ("127.0.0.1:1",), "worker": ("127.0.0.1:2",), "ps": ("127.0.0.1:3",)}
STEPS_PER_EPOCH = 16


class SlowEvaluation:
    """An evaluation that ends when it may."""

    def __init__(self, metrics=None):
        self.may_end = threading.Event()
        self._metrics = metrics or {"loss": 1.0, "accuracy": 0.5}

    def measure(self, weights, state):
        assert self.may_end.wait(30)
        return self._metrics

    def decide(self, weights, state, line):
        return DecisionRule()


class BadEvaluation:
    def measure(self, weights, state):
        raise InputError("no example has a label")


class Chief:
    """The results of a parameter-server job, whose steps are only counted."""

    def __init__(self, examples_dir, out, steps, **settings):
        cluster = Cluster(addresses=CLUSTER)
        self.job = new_job(
            examples_dir, out, cluster=cluster, steps=steps, log_every_steps=8, **settings
        )
        step = assemble(self.job, devices=[CPU], num_counters=1)
        self.out, self._step = out, step
        self.results = Results(
            self.job, step, build_served_model(self.job.workload, self.job.config)
        )
        self.results.restore()
        self.results.open(0, lambda _: {"unfinished": [[step.parameters.num_steps(), -1]]}, None)

    def do_steps(self, count, *, unfinished=0):
        for _ in range(count + unfinished):
            self._step.parameters.count_step()
        totals = Totals(
            steps=count, examples=32 * count, sums=np.zeros(self._step.objective.num_sums)
        )
        self.results.after_call(totals)

    def lines(self, split):
        return [line["step"] for line in read_lines(self.out, split)]


@pytest.fixture
def slow(monkeypatch):
    evaluation = SlowEvaluation()
    monkeypatch.setattr(Results, "_evaluation", evaluation)
    return evaluation


def test_steps_go_on_during_an_evaluation(examples_dir, tmp_path, slow):
    chief = Chief(examples_dir, tmp_path, 2 * STEPS_PER_EPOCH)
    chief.do_steps(STEPS_PER_EPOCH)
    chief.do_steps(8)
    assert chief.lines("train") == [STEPS_PER_EPOCH, STEPS_PER_EPOCH + 8]
    assert chief.lines("eval") == []

    slow.may_end.set()
    chief.do_steps(8)  # the last ones

    assert chief.lines("eval") == [STEPS_PER_EPOCH, 2 * STEPS_PER_EPOCH]
    chief.results.close()
    saved = {one.step: one.extra for one in list_checkpoints(f"{tmp_path}/checkpoints")}
    # Of the best evaluation, with the steps that were unfinished then; and the last one.
    assert saved == {step: {"unfinished": [[step, -1]]} for step in (16, 32)}


def test_an_evaluation_has_the_step_of_its_weights(examples_dir, tmp_path, slow):
    slow.may_end.set()
    chief = Chief(examples_dir, tmp_path, 1000)
    chief.do_steps(STEPS_PER_EPOCH, unfinished=5)  # of a call that another worker executes
    chief.results.save()
    assert chief.lines("eval") == [STEPS_PER_EPOCH + 5]
    assert chief.results.last_good_step() == STEPS_PER_EPOCH + 5
    chief.results.close()


def test_a_stopped_job_records_the_evaluation_that_runs(examples_dir, tmp_path, slow):
    chief = Chief(examples_dir, tmp_path, 1000)
    chief.do_steps(STEPS_PER_EPOCH)
    chief.do_steps(3)
    threading.Timer(0.2, slow.may_end.set).start()
    assert chief.results.save() == STEPS_PER_EPOCH + 3
    assert chief.lines("eval") == [STEPS_PER_EPOCH]
    chief.results.close()


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_metric_that_is_never_finite_makes_no_checkpoint_the_best(
    examples_dir, tmp_path, monkeypatch, caplog, value
):
    evaluation = SlowEvaluation({"loss": value, "accuracy": 0.5})
    evaluation.may_end.set()
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(Results, "_evaluation", evaluation)
    chief = Chief(examples_dir, tmp_path, 1000, patience=2)
    for _ in range(3):  # each finishes the evaluation of the epoch before
        chief.do_steps(STEPS_PER_EPOCH)
    assert chief.job.finish.is_set()
    assert "the loss was never a number (--patience 2)" in caplog.text
    chief.results.close()
    chief.results.export()
    assert f"exporting the last checkpoint, of step {2 * STEPS_PER_EPOCH}" in caplog.text
    lines = (tmp_path / "logs/metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line, parse_constant=pytest.fail)["loss"] for line in lines]
    assert losses.count(None) == 2


def test_an_error_of_an_evaluation_ends_the_job(examples_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(Results, "_evaluation", BadEvaluation())
    chief = Chief(examples_dir, tmp_path, 2 * STEPS_PER_EPOCH)
    with pytest.raises(InputError, match="no example has a label"):
        [chief.do_steps(STEPS_PER_EPOCH) for _ in range(2)]
    chief.results.close()
