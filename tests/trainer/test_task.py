"""`python -m trainer.task` on one machine, as a user starts it."""

import json

import numpy as np
import pytest

from tests.support.data.evaluation import evaluate
from trainer.runtime.progress import parse_progress


def read_metrics(out, split):
    lines = (out / "logs/metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["split"] == split]


def test_a_job_trains_and_exports_and_started_again_only_exports(
    start, flags, examples_dir, tmp_path
):
    out = tmp_path / "out"
    first = start("first", *flags, "--epochs", 8, is_new=True)
    assert first.wait() == 0, first.log
    progress = [parse_progress(line) for line in first.log.splitlines()]
    steps = [line.step for line in progress if line]
    assert steps[0] > 0
    assert steps[-1] == 128
    assert all(line.startswith("chief/0 ") for line in first.log.splitlines()), first.log
    assert read_metrics(out, "train")[-1]["step"] == 128
    assert {"step", "loss", "accuracy", "examples_per_second", "time"} <= set(
        read_metrics(out, "train")[0]
    )
    assert list(out.glob("logs/train/events*"))
    assert list(out.glob("logs/eval/events*"))
    evaluation = evaluate(str(out / "model"), str(examples_dir), split="eval")
    assert evaluation.num_examples == 100
    assert evaluation.metrics["accuracy"] > 0.9
    assert np.sum(evaluation.confusion) == 100
    # The metrics of the exported model are those of the last evaluation in training.
    last = read_metrics(out, "eval")[-1]
    assert evaluation.metrics["accuracy"] == pytest.approx(last["accuracy"])
    assert evaluation.metrics["loss"] == pytest.approx(last["loss"], rel=1e-4)

    (out / "model" / "workload.json").unlink()
    again = start("again", *flags, "--epochs", 8)
    assert again.wait() == 0, again.log
    assert "resuming from step 128" in again.log
    assert (out / "model" / "workload.json").exists()
    assert not list(out.glob("model.*"))
