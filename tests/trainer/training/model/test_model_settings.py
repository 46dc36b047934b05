"""Optimizers, the wide-and-deep settings, and the schedule of a resumed job."""

import dataclasses
import json
import logging
import re
import shutil
import threading

import numpy as np
import pytest

from tests.support.data.evaluation import evaluate
from trainer.cluster.tf_config import Cluster
from trainer.config.model_settings import LINEAR_OPTIMIZERS, OPTIMIZERS
from trainer.config.train_config import TrainConfig, resolve_folders
from trainer.errors import InputError, TrainerError
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.training.checkpoint import list_checkpoints

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.loop import train_synchronously  # noqa: E402
from trainer.serving.export import load_predictor  # noqa: E402
from trainer.training.job import make_job  # noqa: E402
from trainer.training.model.flat_model import FlatModel  # noqa: E402
from trainer.training.optimizers.adam import Adam  # noqa: E402
from trainer.training.optimizers.fused import (  # noqa: E402
    Ftrl,
    Sgd,
    make_linear_optimizer,
    make_optimizer,
)
from trainer.training.optimizers.rules import Average, LinearPart, UpdateRules  # noqa: E402
from trainer.training.optimizers.schedule import Schedule  # noqa: E402
from trainer.training.parameters import Parameters  # noqa: E402
from trainer.training.step import apply_gradient  # noqa: E402

pytestmark = pytest.mark.timeout(180)
WIDE_AND_DEEP = {
    "model.crosses": "payment_type:company,payment_type:fare:trip_start_hour",
    "model.hidden_units": "16,8",
    "model.embedding_size": 4,
    "model.batch_norm": True,
    "linear_optimizer": "ftrl",
}
STEADY = Schedule(peak=0.1, total_steps=100, warmup=0.0, kind="constant")


def train(examples_dir, out, *, workload="taxi", num_devices=1, **settings):
    given = {"workload": workload, "examples_dir": str(examples_dir), "batch_size": 32}
    config = TrainConfig.from_settings({**given, **settings})
    job = make_job(config, Cluster(), resolve_folders(str(out), {}), threading.Event())
    train_synchronously(job, ["/device:CPU:0"] * num_devices)
    return job


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if one.name.startswith("trainer")]


def rates(out):
    lines = map(json.loads, (out / "logs/metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["learning_rate"] for line in lines if line["split"] == "train"}


@pytest.mark.parametrize(
    "settings",
    [
        *({"optimizer": name} for name in OPTIMIZERS),
        {"optimizer": "sgd", "momentum": 0.0},
        {"optimizer": "rmsprop", "momentum": 0.9},
        *({"linear_optimizer": name} for name in LINEAR_OPTIMIZERS),
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_loss_falls_with_every_optimizer(settings, tmp_path):
    """A linear model learns the line from which its examples are computed."""
    config = TrainConfig(workload="taxi", examples_dir="-", weight_decay=0, **settings)
    recipe = config.recipe()
    has_linear = bool(recipe.linear_optimizer)
    random = np.random.default_rng(3)
    inputs = tf.constant(random.normal(size=(64, 6)), tf.float32)
    truth = tf.linalg.matvec(inputs, tf.constant([1.0, -1.0, 0.5, 0.2, -0.3, 0.8]))
    segments = ((4, False), (2, has_linear))
    schedule = dataclasses.replace(STEADY, peak=recipe.learning_rate)
    parameters = Parameters(
        tf.zeros([6]),
        devices=["/device:CPU:0"] * 2,
        rules=UpdateRules(
            optimizer=make_optimizer(recipe),
            linear=LinearPart(
                segments=segments, optimizer=make_linear_optimizer(recipe), schedule=STEADY
            )
            if has_linear
            else None,
        ),
    )

    @tf.function(autograph=False)
    def run_step():
        with tf.GradientTape() as tape:
            weights = parameters.pull()
            tape.watch(weights)
            loss = tf.reduce_mean((tf.linalg.matvec(inputs, weights) - truth) ** 2)
        apply_gradient(parameters, tape.gradient(loss, weights), schedule)
        return loss

    found = [float(run_step()) for _ in range(100)]
    assert found[-1] < 0.85 * found[0]
    assert all(after < before for before, after in zip(found[::10], found[10::10], strict=False))


def test_an_optimizer_gives_the_same_result_in_one_piece_or_several():
    segments = ((3, False), (4, True), (2, False), (2, True))
    initial = tf.random.stateless_normal([11], [1, 2])
    results = []
    for num_pieces in (1, 3):
        linear = LinearPart(segments=segments, optimizer=Ftrl(), schedule=STEADY)
        rules = UpdateRules(optimizer=Adam(), linear=linear, average=Average(decay=0.9))
        parameters = Parameters(initial, devices=["/device:CPU:0"] * num_pieces, rules=rules)
        for _ in range(4):
            apply_gradient(parameters, parameters.pull() * 2, STEADY)
        results.append(parameters.snapshot())
        again = Parameters(initial, devices=["/device:CPU:0"] * 2, rules=rules)
        again.load(results[-1])
        for name, value in again.snapshot().items():
            np.testing.assert_array_equal(value, results[-1][name], err_msg=name)
    assert results[0]["momentum"].shape == (5,)
    assert results[0]["linear_accumulator"].shape == (6,)
    for name, value in results[0].items():
        np.testing.assert_allclose(value, results[1][name], rtol=1e-6, err_msg=name)
    is_linear = np.repeat([one for _, one in segments], [size for size, _ in segments])
    for optimizer, chosen in ((Adam(), ~is_linear), (Ftrl(), is_linear)):
        alone = Parameters(
            tf.boolean_mask(initial, chosen),
            devices=["/device:CPU:0"],
            rules=UpdateRules(optimizer=optimizer),
        )
        for _ in range(4):
            apply_gradient(alone, alone.pull() * 2, STEADY)
        np.testing.assert_allclose(results[0]["weights"][chosen], alone.pull(), rtol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_momentum_equals_that_of_keras(momentum):
    import keras

    variable = keras.Variable(np.ones(3, np.float32))
    theirs = keras.optimizers.SGD(0.1, momentum=momentum, nesterov=bool(momentum))
    ours = Parameters(
        tf.ones([3]),
        devices=["/device:CPU:0"],
        rules=UpdateRules(optimizer=Sgd(momentum=momentum)),
    )
    for step in range(3):
        gradient = tf.constant([1.0, -2.0, step])
        apply_gradient(ours, gradient, STEADY)
        theirs.apply([gradient], [variable])
    np.testing.assert_allclose(ours.pull(), variable.value, rtol=1e-5)


@pytest.fixture(scope="module")
def wide_and_deep(trips_dir, tmp_path_factory):
    """A trained job of one device and its folder, with a checkpoint of every 20th step."""
    out = tmp_path_factory.mktemp("wide-and-deep")
    settings = {"checkpoint_every_steps": 20, "keep_checkpoints": 100, "schedule_steps": 180}
    return train(trips_dir, out, steps=180, **settings, **WIDE_AND_DEEP), out


def test_the_wide_and_deep_settings_reach_model_checkpoint_and_server(wide_and_deep, trips_dir):
    job, out = wide_and_deep
    metrics = evaluate(str(out / "model"), str(trips_dir), split="eval").metrics
    measured = [json.loads(line) for line in (out / "logs/metrics.jsonl").read_text().splitlines()]
    # The exported model normalises by the moving statistics, as the evaluation in training does.
    assert metrics["loss"] == pytest.approx(measured[-1]["loss"], rel=1e-4)
    assert metrics["auc"] > 0.95
    assert job.workload.crosses[1] == ("payment_type", "fare", "trip_start_hour")
    snapshot = list_checkpoints(str(out / "checkpoints"))[-1].load()
    assert snapshot["state"].shape == (2 * (16 + 8),)
    assert not np.allclose(snapshot["state"][:16], 0)
    predictor = load_predictor(str(out / "model"))
    [answer] = predictor.predict([{"payment_type": "Credit Card", "company": "Café Cabs"}])
    assert answer["label"] == "big tip"


def test_the_linear_part_is_found_whatever_the_embedding_size(trips_dir, tmp_path):
    job = make_job(
        TrainConfig(
            workload="taxi", examples_dir=str(trips_dir), model_settings={"embedding_size": 2}
        ),
        Cluster(),
        resolve_folders(str(tmp_path), {}),
        threading.Event(),
    )
    model = job.workload.build_model()
    chosen = job.workload.linear_variables(model)
    sizes = [column.size for column in job.workload.columns if column.kind == "category"]
    assert [variable.shape[0] for variable in chosen] == [
        sum(sizes),
        sum(job.workload._cross_sizes()),
    ]
    segments = FlatModel(model).segments(chosen)
    assert sum(size for size, _ in segments) == FlatModel(model).size
    assert [size for size, is_linear in segments if is_linear] == [
        2 * variable.shape[0] for variable in chosen
    ]


def test_checkpoints_of_another_model_or_optimizer_are_refused(trips_dir, tmp_path):
    # The same sizes in another order: only the settings differ.
    crosses = "payment_type:company,trip_start_day:trip_start_hour"
    train(trips_dir, tmp_path, steps=4, **{"model.crosses": crosses})
    swapped = ",".join(crosses.split(",")[::-1])
    with pytest.raises(
        InputError, match=rf"--model.crosses {crosses}, not --model.crosses {swapped}"
    ):
        train(trips_dir, tmp_path, steps=8, **{"model.crosses": swapped})
    with pytest.raises(InputError, match=r"not default settings.*--fresh"):
        train(trips_dir, tmp_path, steps=8)
    with pytest.raises(TrainerError, match=r"another model.*--fresh"):
        train(trips_dir, tmp_path, steps=8, linear_optimizer="ftrl", **{"model.crosses": crosses})


def test_mirrored_training_combines_the_statistics_of_all_parts(wide_and_deep, trips_dir, tmp_path):
    train(trips_dir, tmp_path, steps=20, schedule_steps=180, num_devices=2, **WIDE_AND_DEEP)
    saved = [list_checkpoints(str(out / "checkpoints"))[0] for out in (wide_and_deep[1], tmp_path)]
    assert [one.step for one in saved] == [20, 20]
    one, two = (each.load()["state"].numpy() for each in saved)
    assert not np.allclose(one, 0)
    # Parts differ a little: the mean of their variances is below the variance of the batch.
    assert np.corrcoef(one, two)[0, 1] > 0.98


def test_a_resumed_job_follows_the_schedule_of_its_flags(trips_dir, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    every = {"log_every_steps": 1, "steps_per_call": 1}
    out, other = tmp_path / "out", tmp_path / "other"
    # Like a job of 20 steps that was stopped after 10.
    train(trips_dir, out, steps=10, schedule_steps=20, **every)
    assert warnings(caplog) == []
    shutil.copytree(out, other)
    expected = Schedule(peak=2e-3, total_steps=20)

    job = train(trips_dir, out, steps=24, schedule_steps=20, **every)
    assert job.schedule == expected
    wanted = [float(expected.rate(tf.constant(step))) for step in range(1, 25)]
    assert list(rates(out).values()) == pytest.approx(wanted)
    [message] = warnings(caplog)
    assert re.search("learning rate is zero from step 21.*--schedule-steps", message)

    caplog.clear()
    train(trips_dir, other, steps=15, schedule="one_cycle")
    [message] = warnings(caplog)
    before, after = (
        float(one.rate(tf.constant(11)))
        for one in (expected, dataclasses.replace(expected, total_steps=15))
    )
    assert f"step 11 is {after:.3g} (one_cycle over 15 steps" in message
    assert f"not {before:.3g}" in message
    assert "one_cycle over 20 steps" in message
    assert "--schedule-steps 20" in message
