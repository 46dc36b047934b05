"""`trainyard runs list` with conditions, an order and columns."""

import dataclasses

import pytest

from components.shared.run_summary.summary import summarize
from pipelines.runs.selection import chosen_table, select
from tests.support.data.run_records import promoted
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


def run(name, accuracy, epochs, **facts):
    made = summarize(promoted(accuracy, train=f'{{"epochs": {epochs}}}'))
    return dataclasses.replace(made, run=name, **facts)


RUNS = [
    run("a", 0.9, 5),
    run("b", 0.95, 10),
    run("c", 0.97, 9, outcome="gate-failed"),
    run("d", 0.1, 1, metrics={}),
]


@pytest.mark.parametrize(
    ("where", "sort", "names"),
    [
        ([], "", "abcd"),
        (["train.epochs=5"], "", "a"),
        (["train.epochs>=9", "accuracy<0.96"], "", "b"),
        (["accuracy!=0.9"], "", "bc"),
        (["outcome=gate-failed"], "", "c"),
        (["outcome<5"], "", ""),
        ([], "train.epochs", "dacb"),
        ([], "accuracy:desc", "cbad"),
        ([], "outcome", "cabd"),
    ],
)
def test_runs_are_selected_and_sorted(where, sort, names):
    assert "".join(one.run for one in select(RUNS, where=where, sort=sort)) == names


@pytest.mark.parametrize(
    ("where", "sort", "message"),
    [
        (["accuracy"], "", "accuracy>=0.98"),
        (["acuracy>0.9"], "", "accuracy"),
        ([], "train.epoch", "train.epochs"),
    ],
)
def test_a_wrong_condition_or_name_is_named(where, sort, message):
    with pytest.raises(ConfigError, match=message):
        select(RUNS, where=where, sort=sort)


def test_the_chosen_columns():
    table = chosen_table(RUNS, ["train.epochs", "accuracy", "outcome"])
    assert table.headings == ("RUN", "train.epochs", "accuracy", "outcome")
    assert table.rows[2:] == [
        ("c", "9", "0.9700", "gate-failed"),
        ("d", "1", "-", "promoted"),
    ]
    assert chosen_table([], ["accuracy"]).rows == []
