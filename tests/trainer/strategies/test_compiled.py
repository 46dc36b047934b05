"""A compiled model in clusters of real processes: as on one device, and without lost updates."""

import numpy as np
import pytest

from tests.trainer.support.compiled import write_workload
from tests.trainer.support.jobs import expect_end, last_checkpoint, read_lines

pytestmark = pytest.mark.timeout(300)


def flags(workload, examples_dir, out, *more):
    return [
        *("--workload", workload, "--examples-dir", examples_dir, "--output-dir", out),
        *("--batch-size", 32, "--steps-per-call", 8, "--log-every-steps", 8, *more),
    ]


@pytest.mark.parametrize(
    ("optimizer", "callbacks", "sizes"),
    [
        (
            "SGD(0.003)",
            "[keras.callbacks.LearningRateScheduler(lambda epoch: 0.003 / (epoch + 1))]",
            {"num_chiefs": 0, "num_ps": 0},
        ),
        # With one worker no update is late, so that it equals the others, too. Without callbacks:
        # calls in flight may be finished at the old rate.
        (
            "AdamW(keras.optimizers.schedules.CosineDecay(0.003, 100))",
            "()",
            {"num_workers": 1, "num_ps": 2},
        ),
    ],
    ids=["workers", "parameter servers"],
)
def test_the_strategy_does_not_change_what_a_compiled_model_learns(  # noqa: PLR0917
    start, start_cluster, examples_dir, tmp_path, optimizer, callbacks, sizes
):
    workload = write_workload(
        tmp_path,
        net="embedded",
        optimizer=f"keras.optimizers.{optimizer}",
        loss="keras.losses.CategoricalCrossentropy(from_logits=True, reduction='sum')",
        metrics="['categorical_accuracy', keras.metrics.TopKCategoricalAccuracy(k=3)]",
        callbacks=callbacks,
    )
    alone = start("single", *flags(workload, examples_dir, tmp_path / "single", "--steps", 32))
    cluster = flags(workload, examples_dir, tmp_path / "cluster", "--steps", 32)
    expect_end([alone, *start_cluster(*cluster, **sizes).values()])
    for split, steps in (("train", [8, 16, 24, 32]), ("eval", [16, 32])):
        single, found = (read_lines(tmp_path / name, split) for name in ("single", "cluster"))
        assert [line["step"] for line in single] == steps
        if sizes["num_ps"] and split == "eval":
            single, found = single[-1:], found[-1:]  # before, the worker continues meanwhile
        for expected, line in zip(single, found, strict=True):
            names = [key for key in line if key == "loss" or "accuracy" in key]
            assert len(names) == (3 if split == "train" else 4)
            wanted = {key: expected[key] for key in ("step", *names)}
            assert {key: line[key] for key in wanted} == pytest.approx(wanted, abs=2e-4)
            assert line.get("learning_rate") == expected.get("learning_rate")


def test_no_update_of_keras_own_code_is_lost_on_parameter_servers(
    start_cluster, examples_dir, tmp_path
):
    workload = write_workload(tmp_path, optimizer="Counting(0.01)")
    out = tmp_path / "out"
    more = ["--steps", 120, "--checkpoint-every-steps", 120]
    expect_end(start_cluster(*flags(workload, examples_dir, out, *more), num_ps=2).values())
    snapshot = last_checkpoint(out).load()
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
    replicas = start_cluster(*flags(workload, examples_dir, out, "--steps", 400), num_ps=2)
    chief = replicas["chief/0"]
    chief.wait_for("/400 loss")
    replicas.pop("worker/0").kill()
    assert chief.process.poll() is None, "else this would show nothing"
    expect_end(replicas.values())
    assert "12544 rows of 24 weights" in chief.log
    saved = last_checkpoint(out)
    assert saved.step == 400
    # Each step lowers the sum by 1; the first was 0.
    total = saved.load()["weights"].numpy().sum(dtype=np.float64)
    assert total == pytest.approx(-400, abs=1.01)
