"""A small table from the file to a second version, judged by folds."""

import random

import pytest

from tests.support.data.csv_tables import write_table

CENTERS = {"setosa": (5.0, 1.5), "versicolor": (5.9, 4.3), "virginica": (6.6, 5.5)}


@pytest.mark.timeout(400)
def test_few_rows_are_judged_by_folds_and_a_version_by_those_of_the_one_before(home):
    dice = random.Random(4)
    rows = [
        {"sepal": dice.gauss(sepal, 0.4), "petal": dice.gauss(petal, 0.3), "species": species}
        for species, (sepal, petal) in CENTERS.items()
        for _ in range(50)
    ]
    write_table(home.folder / "iris.csv", rows)
    home.call("new", "iris", "--table", "iris.csv", "--label", "species")
    assert "5 folds of all 150 rows judge the model" in home.call("check", "iris")
    settings = ("train.steps=150", "train.learning_rate=0.02", "thresholds.accuracy=0.8")
    words = [word for one in (*settings, "gate.folds=2") for word in ("--set", one)]

    output = home.call("run", "iris", *words)

    run = home.summary()
    assert (run["outcome"], run["model_version"]) == ("promoted", "iris@1")
    assert (run["folds"]["count"], run["folds"]["rows"]) == (2, 150)
    accuracy = run["folds"]["metrics"]["accuracy"]
    assert accuracy == pytest.approx(round(accuracy * 150) / 150)
    assert f"accuracy {accuracy:.4f} by 2 folds (150 rows) is at least 0.8" in run["reasons"]
    assert any("by 2 folds (150 rows)" in text and "linear" in text for text in run["reasons"])
    assert run["metrics"]["num_examples"] < 50
    assert "folds accuracy" in output

    home.call("run", "iris", *words, "--set", "train.seed=1", "--set", "gate.min_gain=-1")

    second = home.summary()
    assert second["model_version"] == "iris@2"
    for rival in ("version 1", "best constant"):
        [text] = [text for text in second["reasons"] if rival in text]
        assert "by 2 folds (150 rows)" in text
    # Of each fold's rest, whose most frequent class is not the fold's; of all rows it is 0.3333.
    assert float(text.partition("constant prediction, ")[2].partition(", surely")[0]) < 1 / 3
    home.assert_nothing_is_left()
