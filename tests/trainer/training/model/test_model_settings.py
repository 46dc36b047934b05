"""Optimizers, the wide-and-deep settings, and the schedule of a resumed job."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.data.evaluation import evaluate
from tests.trainer.support import jobs
from trainer.errors import TrainerError
from trainer.serving.export import load_predictor
from trainer.training.model.flat_model import FlatModel
from trainer.training.optimizers.fused import (
    Adam,
    Ftrl,
    make_linear_optimizer,
    make_optimizer,
)
from trainer.training.optimizers.rules import Average, LinearPart, UpdateRules
from trainer.training.optimizers.schedule import Schedule
from trainer.training.parameters import Parameters
from trainer.training.step import apply_gradient
from trainer.workloads.base import Recipe

WIDE_AND_DEEP = {
    "model.crosses": "payment_type:company,payment_type:fare:trip_start_hour",
    "model.hidden_units": "16,8",
    "model.embedding_size": 4,
    "model.batch_norm": True,
    "linear_optimizer": "ftrl",
}
STEADY = Schedule(peak=0.1, total_steps=100, warmup=0.0, kind="constant")


def train(examples_dir, out, **settings):
    return jobs.train(examples_dir, out, **{"workload": "taxi", **settings})


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if one.name.startswith("trainer")]


def test_an_optimizer_gives_the_same_result_in_one_piece_or_several():
    segments = ((3, False), (4, True), (2, False), (2, True))
    initial = tf.random.stateless_normal([11], [1, 2])
    results = []
    for num_pieces in (1, 3):
        linear = LinearPart(segments=segments, optimizer=Ftrl(), schedule=STEADY)
        rules = UpdateRules(
            schedule=STEADY, optimizer=Adam(), linear=linear, average=Average(decay=0.9)
        )
        parameters = Parameters(initial, devices=["/device:CPU:0"] * num_pieces, rules=rules)
        for _ in range(4):
            apply_gradient(parameters, parameters.pull() * 2)
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
            rules=UpdateRules(schedule=STEADY, optimizer=optimizer),
        )
        for _ in range(4):
            apply_gradient(alone, alone.pull() * 2)
        np.testing.assert_allclose(results[0]["weights"][chosen], alone.pull(), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "momentum", "kind", "options"),
    [
        ("adam", None, "Adam", {}),
        ("sgd", 0.0, "SGD", {}),
        ("sgd", 0.5, "SGD", {"momentum": 0.5, "nesterov": True}),
        ("adagrad", None, "Adagrad", {}),
        ("rmsprop", None, "RMSprop", {}),
        ("rmsprop", 0.9, "RMSprop", {"momentum": 0.9}),
        ("ftrl", None, "Ftrl", {}),
    ],
)
def test_the_optimizer_of_a_recipe_equals_that_of_keras(name, momentum, kind, options):
    recipe = Recipe(learning_rate=0.1, optimizer=name, momentum=momentum, linear_optimizer=name)
    optimizer = make_linear_optimizer(recipe) if name == "ftrl" else make_optimizer(recipe)
    variable = keras.Variable(np.ones(3, np.float32))
    theirs = getattr(keras.optimizers, kind)(0.1, **options)
    rules = UpdateRules(schedule=STEADY, optimizer=optimizer)
    ours = Parameters(tf.ones([3]), devices=[jobs.CPU] * 2, rules=rules)
    for step in range(3):
        gradient = tf.constant([1.0, -2.0, step])
        apply_gradient(ours, gradient)
        theirs.apply([gradient], [variable])
    np.testing.assert_allclose(ours.pull(), variable.value, rtol=1e-4)


@pytest.fixture(scope="module")
def wide_and_deep(trips_dir, tmp_path_factory):
    """A trained job of one device, and its folder."""
    out = tmp_path_factory.mktemp("wide-and-deep")
    return train(trips_dir, out, steps=100, **WIDE_AND_DEEP), out


def test_the_wide_and_deep_settings_reach_model_checkpoint_and_server(wide_and_deep, trips_dir):
    job, out = wide_and_deep
    metrics = evaluate(str(out / "model"), str(trips_dir), split="eval").metrics
    # The exported model normalises by the moving statistics, as the evaluation in training does.
    predictor = load_predictor(str(out / "model"))
    assert metrics["loss"] == pytest.approx(predictor.decision["loss_after"], rel=1e-4)
    assert metrics["auc"] > 0.95
    assert job.workload.crosses[1] == ("payment_type", "fare", "trip_start_hour")
    snapshot = jobs.last_checkpoint(out).load()
    assert snapshot["state"].shape == (2 * (16 + 8),)
    assert not np.allclose(snapshot["state"][:16], 0)
    [answer] = predictor.predict([{"payment_type": "Credit Card", "company": "Café Cabs"}])
    assert answer["label"] == "big tip"


def test_the_linear_part_is_found_whatever_the_embedding_size(trips_dir, tmp_path):
    job = jobs.new_job(trips_dir, tmp_path, workload="taxi", **{"model.embedding_size": 2})
    model = job.workload.build_model()
    chosen = job.workload.linear_variables(model)
    columns = job.workload.columns
    sizes = {column.key: column.size for column in columns if column.kind == "category"}
    pairs = sum(sizes[one] * sizes[other] for one, other in job.workload.crosses)
    assert [variable.shape[0] for variable in chosen] == [sum(sizes.values()), pairs]
    segments = FlatModel(model).segments(chosen)
    assert sum(size for size, _ in segments) == FlatModel(model).size
    assert [size for size, is_linear in segments if is_linear] == [
        2 * variable.shape[0] for variable in chosen
    ]


def test_checkpoints_of_another_model_or_optimizer_are_refused(wide_and_deep, trips_dir):
    # The same sizes in another order: only the settings differ.
    crosses = WIDE_AND_DEEP["model.crosses"]
    swapped = ",".join(crosses.split(",")[::-1])
    for change, message in (
        ({"model.crosses": swapped}, rf"--model.crosses {crosses}.* not .*crosses {swapped}"),
        ({"model.crosses": "none"}, r"--model.crosses none.*--fresh"),
        ({"linear_optimizer": None}, r"another model.*--fresh"),
    ):
        with pytest.raises(TrainerError, match=message):
            train(trips_dir, wide_and_deep[1], steps=200, **WIDE_AND_DEEP | change)


def test_a_resumed_job_follows_the_schedule_of_its_flags(trips_dir, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    every = {"log_every_steps": 1, "steps_per_call": 1}
    # Like a job of 20 steps that was stopped after 10.
    train(trips_dir, tmp_path, steps=10, schedule_steps=20, **every)
    assert warnings(caplog) == []
    job = train(trips_dir, tmp_path, steps=15, **every)
    before, after = (Schedule(peak=2e-3, total_steps=steps) for steps in (20, 15))
    assert job.schedule == after
    wanted = {
        step: float((before if step <= 10 else after).rate(tf.constant(step)))
        for step in range(1, 16)
    }
    assert jobs.read_curve(tmp_path, "learning_rate") == pytest.approx(wanted)
    [message] = warnings(caplog)
    assert f"step 11 is {wanted[11]:.3g} (one_cycle over 15 steps" in message
    assert f"not {float(before.rate(tf.constant(11))):.3g}" in message
    assert "one_cycle over 20 steps" in message
    assert "--schedule-steps 20" in message
