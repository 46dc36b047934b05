"""A compiled model in clusters of real processes: as on one device, and without lost updates."""

import json

import numpy as np
import pytest

from tests.trainer.support.compiled import write_workload
from trainer.training.checkpoint import list_checkpoints

pytestmark = pytest.mark.timeout(300)
WORKERS = {"num_chiefs": 0, "num_ps": 0, "num_workers": 2}


def flags(workload, examples_dir, out, *more):
    return [
        *("--workload", workload, "--examples-dir", examples_dir, "--output-dir", out),
        *("--batch-size", 32, "--steps-per-call", 8, "--log-every-steps", 8, *more),
    ]


def read_lines(out, split):
    lines = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
    return {line["step"]: line for line in lines if line["split"] == split}


@pytest.mark.parametrize(
    ("net", "optimizer", "loss", "callbacks", "others"),
    [
        ("dense", "keras.optimizers.Lamb(0.01, clipnorm=1.0)", None, "()", ("mirrored", "ps")),
        (
            "dense",
            "keras.optimizers.SGD(0.1)",
            None,
            "[keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))]",
            ("workers",),  # not ps, where calls in flight may be finished at the old rate
        ),
        (
            "embedded",
            "keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.003, 100))",
            "keras.losses.CategoricalCrossentropy(from_logits=True, reduction='sum')",
            "()",
            ("workers", "ps"),
        ),
    ],
    ids=["lamb", "sgd-callback", "adamw-sum-embedding"],
)
def test_the_strategy_does_not_change_what_a_compiled_model_learns(  # noqa: PLR0917
    start, start_cluster, examples_dir, tmp_path, net, optimizer, loss, callbacks, others
):
    accuracy = "sparse_categorical_accuracy" if loss is None else "categorical_accuracy"
    metrics = f"['{accuracy}', keras.metrics.TopKCategoricalAccuracy(k=3)]"
    if loss is None:
        metrics = metrics.replace("TopK", "SparseTopK")
    workload = write_workload(
        tmp_path,
        net=net,
        optimizer=optimizer,
        metrics=metrics,
        callbacks=callbacks,
        **({"loss": loss} if loss else {}),
    )
    starts = {
        "single": lambda *flags: [start("single", *flags)],
        "mirrored": lambda *flags: [start("mirrored", *flags, "--cpu-devices", 3)],
        "workers": lambda *flags: start_cluster(*flags, **WORKERS).values(),
        # With one worker no update is late, so that it equals the others, too.
        "ps": lambda *flags: start_cluster(*flags, num_workers=1, num_ps=2).values(),
    }
    for name in ("single", *others):
        replicas = starts[name](*flags(workload, examples_dir, tmp_path / name, "--steps", 32))
        for replica in replicas:
            assert replica.wait() == 0, replica.log
    for split, steps in (("train", {8, 16, 24, 32}), ("eval", {16, 32})):
        expected = read_lines(tmp_path / "single", split)
        assert set(expected) == steps
        for name in others:
            for step, line in read_lines(tmp_path / name, split).items():
                if name == "ps" and split == "eval" and step < 32:
                    continue  # the worker continues while the chief evaluates
                chosen = [key for key in line if key == "loss" or "accuracy" in key]
                assert len(chosen) == (3 if split == "train" else 4)
                wanted = {key: expected[step][key] for key in chosen}
                got = {key: line[key] for key in chosen}
                assert got == pytest.approx(wanted, abs=2e-4), (name, split, step)
                assert line.get("learning_rate") == expected[step].get("learning_rate")


def test_no_update_of_keras_own_code_is_lost_on_parameter_servers(
    start_cluster, examples_dir, tmp_path
):
    workload = write_workload(tmp_path, optimizer="Counting(0.01)")
    out = tmp_path / "out"
    more = ["--steps", 120, "--checkpoint-every-steps", 120]
    replicas = start_cluster(*flags(workload, examples_dir, out, *more), num_workers=2, num_ps=2)
    for replica in replicas.values():
        assert replica.wait() == 0, replica.log
    snapshot = list_checkpoints(str(out / "checkpoints"))[-1].load()
    counts = {name: value for name, value in snapshot.items() if name.startswith("layer_")}
    assert len(counts) == 4
    for name, value in counts.items():
        np.testing.assert_array_equal(value, 120.0, err_msg=name)


def test_a_killed_worker_loses_at_most_its_last_update_of_an_embedding(
    start_cluster, examples_dir, tmp_path
):
    workload = write_workload(
        tmp_path,
        net="looked_up",
        optimizer="keras.optimizers.SGD(1.0, use_ema=True)",
        loss="mean",
        weights="{}",
    )
    out = tmp_path / "out"
    more = ["--steps", 400]
    replicas = start_cluster(*flags(workload, examples_dir, out, *more), num_workers=2, num_ps=2)
    chief = replicas["chief/0"]
    chief.wait_for("/400 loss")
    replicas.pop("worker/0").kill()
    assert chief.process.poll() is None, "else this would show nothing"
    for replica in replicas.values():
        assert replica.wait() == 0, replica.log
    assert "12544 rows of 24 weights" in chief.log
    saved = list_checkpoints(str(out / "checkpoints"))[-1]
    assert saved.step == 400
    # Each step lowers the sum by 1; the first was 0.
    total = saved.load()["weights"].numpy().sum(dtype=np.float64)
    assert total == pytest.approx(-400, abs=1.01)
