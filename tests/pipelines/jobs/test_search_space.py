"""`--set KEY=a,b,c` and `--set KEY=lo..hi` as parameters of a study."""

import pytest

from pipelines.jobs.search_space import key_of, split_space
from pipelines.projects.runs import find_run
from trainer.errors import ConfigError


def specs(*settings, workload="taxi"):
    _, varied = split_space(list(settings), find_run(workload))
    return [one.to_spec() for one in varied]


@pytest.mark.parametrize(
    ("setting", "spec"),
    [
        (
            "train.learning_rate=1e-4..1e-2",
            {
                "parameterId": "learning-rate",
                "doubleValueSpec": {"minValue": 1e-4, "maxValue": 1e-2},
                "scaleType": "UNIT_LOG_SCALE",
            },
        ),
        (
            "train.warmup=0..0.5",
            {
                "parameterId": "warmup",
                "doubleValueSpec": {"minValue": 0.0, "maxValue": 0.5},
                "scaleType": "UNIT_LINEAR_SCALE",
            },
        ),
        (
            "train.epochs=1..9",
            {
                "parameterId": "epochs",
                "integerValueSpec": {"minValue": "1", "maxValue": "9"},
                "scaleType": "UNIT_LINEAR_SCALE",
            },
        ),
        (
            "train.batch_size=16,64,256",
            {
                "parameterId": "batch-size",
                "categoricalValueSpec": {"values": ["16", "64", "256"]},
            },
        ),
        (
            "model.hidden_units=[64,32],[128]",
            {
                "parameterId": "model.hidden_units",
                "categoricalValueSpec": {"values": ["64,32", "128"]},
            },
        ),
        (
            "model.embedding_size=4..8",
            {
                "parameterId": "model.embedding_size",
                "integerValueSpec": {"minValue": "4", "maxValue": "8"},
                "scaleType": "UNIT_LINEAR_SCALE",
            },
        ),
    ],
)
def test_a_setting_as_a_parameter(setting, spec):
    assert specs(setting) == [spec]


def test_settings_with_one_value_are_fixed():
    settings = ["train.epochs=2", "model.hidden_units=64,32", "labels.team=a,b"]
    fixed, varied = split_space([*settings, "train.seed=1,2"], find_run("taxi"))
    assert fixed == settings
    assert [one.key for one in varied] == ["train.seed"]


def test_the_guess_of_a_log_scale_is_said():
    _, [rate, warmup] = split_space(
        ["train.learning_rate=1e-4..1e-2", "train.warmup=0.1..0.5"], find_run("mnist")
    )
    assert "log scale (guessed" in str(rate)
    assert str(warmup) == "train.warmup: 0.1 to 0.5"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.epochs=3", "nothing to vary"),
        ("train.epoch=3..5", r"train\.epochs"),
        ("train.epochs=1..2.5", "whole number"),
        ("model.embedding_size=1..2.5", "whole number"),
        ("train.epochs=0..5", "from 1 to"),
        ("train.batch_size=16,0", r"train.batch_size is 0; it must be"),
        ("train.optimizer=adam,sdg", "sgd"),
        ("model.hidden_units=1..2", "no number"),
        ("train.learning_rate=0.1..0.01", "lower to a higher"),
        ("train.batch_size=16,16", "different"),
        ("train.jit=true,false", "flag without a value"),
        ("prepare.limit=1..5", r"only train\.NAME and model\.NAME"),
        ("model.unit=1,2", "embedding_size"),
    ],
)
def test_what_cannot_be_varied_is_named(setting, message):
    with pytest.raises(ConfigError, match=message):
        split_space([setting], find_run("taxi"))


def test_the_setting_of_a_parameter():
    assert key_of("batch-size") == "train.batch_size"
    assert key_of("model.units") == "model.units"
