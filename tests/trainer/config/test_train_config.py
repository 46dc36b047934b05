"""The trainer's settings and their flags."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.config.model_settings import OPTIMIZERS
from trainer.config.train_config import TrainConfig, parse_flags, resolve_folders
from trainer.errors import ConfigError
from trainer.workloads import BUILT_IN, load_workload

pytestmark = pytest.mark.fast

REQUIRED = ["--workload", "mnist", "--examples-dir", "examples"]


def config(**settings):
    return TrainConfig(workload="mnist", examples_dir="examples", **settings)


def test_every_field_is_a_flag(capsys):
    with pytest.raises(SystemExit) as stop:
        parse_flags(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "--model.NAME" in shown
    for name in TrainConfig.model_fields:
        assert "--" + name.replace("_", "-") in shown or name == "model_settings"
    assert "TF_CONFIG" in shown
    assert "example:" in shown


@pytest.mark.parametrize(
    ("flag", "value", "allowed"),
    [
        ("--epochs", "0", "from 1 to "),
        ("--epochs", "many", "from 1 to "),
        ("--epochs", "1.5", "from 1 to "),
        ("--batch-size", "-4", "from 1 to "),
        ("--learning-rate", "nan", "above 0"),
        ("--learning-rate", "0", "above 0"),
        ("--seed", "-1", "from 0 to "),
        ("--strategy", "mirror", "auto, single, mirrored, multi_worker_mirrored, parameter_server"),
        ("--examples-dir", "", "not empty"),
        ("--label-smoothing", "1.0", "at least 0 and below 1"),
        ("--clip-norm", "inf", "from 0 to "),
        ("--schedule", "step", "one_cycle, cosine, constant, linear"),
        ("--warmup", "1", "at least 0 and below 1"),
        ("--model", "resnet21", "cnn"),
        ("--micro-batches", "3", "--batch-size 128"),
        ("--optimizer", "amda", "did you mean 'adam'? allowed are adam, sgd, adagrad, rmsprop"),
        ("--optimizer", "ftrl", "adam, sgd, adagrad, rmsprop"),
        ("--momentum", "0.9", "but adam has none; use --optimizer sgd or rmsprop"),
        ("--momentum", "1", "at least 0 and below 1"),
        ("--schedule-steps", "0", "from 1 to "),
        ("--linear-optimizer", "ftrl", "its model has --optimizer, --momentum"),
    ],
)
def test_a_bad_value_names_flag_value_and_what_is_allowed(capsys, flag, value, allowed):
    with pytest.raises(SystemExit) as stop:
        parse_flags([*REQUIRED, flag, value])
    assert stop.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert flag in message
    if "its model has" not in allowed:
        assert value in message
    assert allowed in message


def test_batch_normalization_needs_whole_batches():
    own = TrainConfig(workload="taxi", examples_dir="-").recipe()
    normalized = TrainConfig(
        workload="taxi", examples_dir="-", model_settings={"batch_norm": True}
    ).recipe()
    assert own.part_size > 0
    assert normalized == dataclasses.replace(own, part_size=0)


def test_flags_change_the_models_recipe():
    own = TrainConfig(workload="cifar10", examples_dir="-", model="resnet32").recipe()
    assert (own.optimizer, own.learning_rate, own.label_smoothing) == ("sgd", 0.1, 0.0)
    changed = TrainConfig(workload="cifar10", examples_dir="-", learning_rate=0.5, weight_decay=0)
    expected = dataclasses.replace(
        TrainConfig(workload="cifar10", examples_dir="-").recipe(),
        learning_rate=0.5,
        weight_decay=0,
    )
    assert changed.recipe() == expected


@pytest.mark.parametrize(
    ("settings", "warmup"),
    [
        ({}, 0.15),
        ({"schedule": "cosine"}, 0.0),
        ({"schedule": "linear", "warmup": 0.1}, 0.1),
        ({"warmup": 0.3}, 0.3),
    ],
    ids=["recipe", "only-for-one-cycle", "given", "given-for-one-cycle"],
)
def test_the_share_of_warmup_follows_the_schedule(settings, warmup):
    assert config(**settings).recipe().warmup == warmup


def test_steps_and_epochs_together_are_refused():
    with pytest.raises(ConfigError, match="--steps and --epochs"):
        config(steps=5, epochs=1)


@pytest.mark.parametrize(
    ("settings", "num_examples", "steps"),
    [
        ({}, 55_000, 1290),
        ({"epochs": 1}, 128, 1),
        ({"epochs": 1}, 129, 2),
        ({"epochs": 1}, 1, 1),
        ({"steps": 9}, 55_000, 9),
    ],
)
def test_total_steps(settings, num_examples, steps):
    assert config(**settings).total_steps(num_examples) == steps


def test_folders_come_from_the_output_folder_or_from_vertex(monkeypatch):
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # access to buckets
    assert resolve_folders("out/", {}).model == "out/model"
    names = {
        "AIP_MODEL_DIR": "/m/",
        "AIP_CHECKPOINT_DIR": "/c",
        "AIP_TENSORBOARD_LOG_DIR": "gs://b/l/",
    }
    folders = resolve_folders("", names)
    assert (folders.model, folders.checkpoints, folders.logs) == ("/m", "/c", "gs://b/l")


def test_a_missing_output_folder_is_named_with_its_remedy():
    with pytest.raises(ConfigError, match=r"--output-dir.*AIP_CHECKPOINT_DIR"):
        resolve_folders("", {"AIP_MODEL_DIR": "/m", "AIP_TENSORBOARD_LOG_DIR": "/l"})


@pytest.mark.parametrize(
    ("flags", "tf_config", "code"),
    [
        (["--help"], "", 0),
        (["--workload", "mnits"], "", 2),
        ([*REQUIRED, "--output-dir", "out"], "{", 2),
        (REQUIRED, "", 2),
    ],
    ids=["help", "bad flag", "bad TF_CONFIG", "no folder"],
)
def test_help_and_errors_do_not_import_tensorflow(flags, tf_config, code, tmp_path):
    # A tensorflow that cannot be imported, ahead of the real one on the path.
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('tensorflow was imported')\n")
    root = Path(__file__).parents[3]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{root}"}
    ended = subprocess.run(
        [sys.executable, "-m", "trainer.task", *flags],
        env={**environ, "TF_CONFIG": tf_config},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "tensorflow was imported" not in ended.stderr


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model.hidden_units": "64,x"}, "--model.hidden_units: '64,x'"),
        ({"model.hidden_units": "64,,32"}, "whole numbers"),
        ({"model.hidden_units": 0}, "whole numbers"),
        ({"model.crosses": "payment_typ:company"}, "did you mean 'payment_type'"),
        ({"model.crosses": "fare:tips"}, "'tips' in 'fare:tips'"),
        ({"model.crosses": "fare"}, "two or more different columns"),
        ({"model.crosses": "fare:fare"}, "two or more different columns"),
        ({"model.crosses": "fare:company,fare:company"}, "fare:company occurs twice"),
        (
            {"model.crosses": "company:pickup_community_area:dropoff_community_area"},
            "up to 6,253,482 combinations",
        ),
        ({"model.embedding_size": "x"}, "--model.embedding_size"),
        ({"model.batch_norm": "perhaps"}, "--model.batch_norm"),
        ({"linear_optimizer": "frtl"}, "did you mean 'ftrl'"),
    ],
)
def test_a_wrong_setting_of_the_wide_and_deep_model_is_named(settings, named):
    with pytest.raises(ConfigError, match=re.escape(named)):
        TrainConfig(**{"workload": "taxi", "examples_dir": "-", **settings})


@pytest.mark.parametrize(
    ("given", "hidden_units"),
    [("128,64", (128, 64)), (" 128, 64 ", (128, 64)), (64, (64,)), ([128, 64], (128, 64))],
    ids=["text", "spaces", "one number", "list"],
)
def test_model_settings_may_be_texts_numbers_or_lists(given, hidden_units):
    crosses = ["payment_type:fare", "company:trip_start_day:trip_start_hour"]
    config = TrainConfig(
        workload="taxi",
        examples_dir="-",
        model_settings={"hidden_units": given, "crosses": crosses},
    )
    taxi = config.chosen_workload()
    assert taxi.hidden_units == hidden_units
    assert taxi.crosses == tuple(tuple(cross.split(":")) for cross in crosses)
    again = TrainConfig(**{"workload": "taxi", "examples_dir": "-", **taxi.changed_options()})
    assert again.chosen_workload() == taxi
    none = TrainConfig(
        workload="taxi", examples_dir="-", model_settings={"crosses": "none"}
    ).chosen_workload()
    assert (none.crosses, none.changed_options()) == ((), {"model.crosses": "none"})


def test_without_settings_the_model_is_unchanged():
    for name in BUILT_IN:
        chosen = TrainConfig(workload=name, examples_dir="-").chosen_workload()
        assert chosen == load_workload(name)
        assert chosen.changed_options() == {}


def test_another_optimizer_has_its_own_learning_rate_and_the_same_decay_per_step():
    own = TrainConfig(workload="taxi", examples_dir="-").recipe()
    other = TrainConfig(workload="taxi", examples_dir="-", optimizer="adagrad").recipe()
    assert (other.optimizer, other.learning_rate) == ("adagrad", OPTIMIZERS["adagrad"])
    step_decay = own.learning_rate * own.weight_decay
    assert other.learning_rate * other.weight_decay == pytest.approx(step_decay)
    assert TrainConfig(workload="taxi", examples_dir="-", optimizer="adam").recipe() == own
    given = TrainConfig(workload="cifar10", examples_dir="-", momentum=0.5).recipe()
    assert (given.optimizer, given.momentum) == ("sgd", 0.5)


@pytest.mark.parametrize(
    ("settings", "few", "many"), [({}, 2.0, 0.5), ({"weight_decay": 1.0}, 1.0, 1.0)], ids=str
)
def test_the_decay_of_a_recipe_is_less_for_many_examples_a_given_one_is_not(
    tmp_path, settings, few, many
):
    (tmp_path / "workload.py").write_text(
        "from trainer.workloads import *\n"
        "recipe = Recipe(learning_rate=1e-3, weight_decay=2.0, decay_examples=1000)\n"
        "workload = Table([Number('x')], label=Binary('y'), recipe=recipe)\n"
    )
    recipe = TrainConfig(workload=str(tmp_path), examples_dir="-", **settings).recipe()
    assert (recipe.decay_for(1000), recipe.decay_for(4000)) == (few, many)


def test_few_examples_are_trained_for_the_least_steps_of_the_recipe(tmp_path):
    (tmp_path / "workload.py").write_text(
        "from trainer.workloads import *\n"
        "workload = Table([Number('x')], label=Binary('y'), recipe=Recipe(learning_rate=1e-3,"
        " min_steps=500, wanted_steps=2000))\n"
    )

    def steps(num_examples, **settings):
        given = {"workload": str(tmp_path), "examples_dir": "-", "batch_size": 100, **settings}
        return TrainConfig(**given).total_steps(num_examples)

    assert steps(100) == 500
    assert steps(400) == 500  # 125 epochs
    assert steps(1000) == 1000  # 100 epochs
    assert steps(10_000) == 2000
    assert steps(100_000) == 3000
    assert steps(400, epochs=2) == 8
    assert steps(400, steps=7) == 7
