"""Workload files of users, from prepared examples to a trained and served model."""

import csv
import json
import shutil

import numpy as np
import pytest

from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.trainer.support import jobs
from trainer.config.train_config import TrainConfig, parse_flags
from trainer.errors import ConfigError, InputError, InstanceError
from trainer.serving.export import load_predictor

LARGE = 1e8  # of prices: the square of a gradient in their unit is not finite
TABLE = """
from trainer.workloads import *

workload = Table(
    [
        Number("size", low=0),
        Category("plan"),
        Category("tags", separator="|"),
        Text("note"),
        Timestamp("since", format="%d.%m.%Y", parts=("month", "year")),
    ],
    label={label},
    key="id",
    weight="worth",
    ignored={ignored},
    {more}
)
"""
OWN_MODEL = """
import keras

def model(inputs, *, labels, units: int = 16, rate=0.1, layers: tuple[int, ...] = (8,)):
    plan = inputs["plan"]
    parts = [inputs["size"], keras.layers.Embedding(plan.num_categories, 4)(plan)]
    x = keras.layers.concatenate(parts)
    for size in (units, *layers):
        x = keras.layers.Dropout(rate)(keras.layers.Dense(size, activation="relu")(x))
    return keras.Model(inputs, keras.layers.Dense(len(labels) or 1)(x))
"""
LABELS = {
    "classes": "Classes('kind')",
    "multilabel": "Multilabel('kinds')",
    "regression": "Regression('price')",
}


@pytest.fixture(scope="module")
def rows_path(tmp_path_factory):
    """A table whose labels follow from the size and the plan."""
    random = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    with path.open("w", newline="") as file:
        names = ("id", "size", "plan", "tags", "note", "since", "worth", "kind", "kinds", "price")
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for number in range(900):
            size, plan = random.gamma(2, 50), random.choice(["basic", "pro", "team"])
            kinds = [name for name, yes in (("big", size > 90), ("paid", plan != "basic")) if yes]
            writer.writerow(
                {
                    "id": number,
                    "size": f"{size:.2f}" if number % 10 else "",
                    "plan": plan,
                    "tags": "|".join(random.choice(["x", "y", "z"], 2)),
                    "note": f"Plan {plan.upper()}, number {number % 3}!",
                    "since": f"{number % 28 + 1}.{number % 12 + 1}.{2000 + number % 20}",
                    "worth": 1 + number % 3,
                    "kind": {"basic": "a", "pro": "b", "team": "c"}[plan],
                    "kinds": "|".join(kinds),
                    "price": LARGE * (1000 * (3 + (plan == "pro")) + 10 * size),
                }
            )
    return path


@pytest.fixture
def write(tmp_path):
    def write_workload(kind, *, own=False):
        folder = tmp_path / "shop"
        folder.mkdir(exist_ok=True)
        ignored = [name for name in ("kind", "kinds", "price") if f"'{name}'" not in LABELS[kind]]
        more = "model=model," if own else ""
        more += "class_weights='balanced'," if kind == "classes" else ""
        text = TABLE.format(label=LABELS[kind], ignored=ignored, more=more)
        (folder / "workload.py").write_text((OWN_MODEL if own else "") + text)
        return str(folder)

    return write_workload


def prepare_rows(reference, rows_path, folder):
    prepare(reference, output_dir=folder, options=PrepareOptions(files=[str(rows_path)]))
    return str(folder)


def train(reference, examples, out, **settings):
    """Train; return the last evaluation."""
    jobs.train(examples, out, workload=reference, **settings)
    return jobs.read_lines(out, "eval")[-1]


INSTANCE = {"size": 150, "plan": "pro", "tags": ["x"], "note": "plan", "since": "1.2.2010"}
EXPECTED = {
    "classes": lambda one: one["label"] == "b" and len(one["probabilities"]) == 3,
    "multilabel": lambda one: one["labels"] == ["big", "paid"],
    "regression": lambda one: abs(one["value"] / LARGE - 5500) < 600,
}
GOOD = {
    "classes": lambda metrics: metrics["accuracy"] > 0.9,
    "multilabel": lambda metrics: metrics["f1"] > 0.9,
    "regression": lambda metrics: metrics["r2"] > 0.8,
}


def assert_weights_are_those_of(kind, reference, examples):
    """Check the weights of the train split: 1 to 3 by row, and balanced if there are classes."""
    job = jobs.new_job(examples, examples, workload=reference)
    features, labels = job.train_tables().at(0, stop=1)
    weights = job.workload.example_weights(features, labels).numpy()
    worth = features["weights"].numpy()
    assert set(worth.tolist()) == {1, 2, 3}
    factors = weights / worth
    if kind == "classes":
        sums = [factors[labels == number].sum() for number in range(len(job.workload.labels))]
        np.testing.assert_allclose(sums, len(labels) / len(sums), rtol=1e-4)
    else:
        assert (factors == 1).all()


@pytest.mark.parametrize("kind", ["multilabel", "regression"])
def test_a_declared_table_learns_without_a_model_of_its_own(kind, write, rows_path, tmp_path):
    reference = write(kind)
    examples = prepare_rows(reference, rows_path, tmp_path / "examples")
    metrics = train(reference, examples, tmp_path / "out", epochs=20)
    assert GOOD[kind](metrics), metrics
    assert_weights_are_those_of(kind, reference, examples)
    [prediction] = load_predictor(str(tmp_path / "out/model")).predict([INSTANCE])
    assert EXPECTED[kind](prediction), prediction


def test_settings_of_an_own_model_reach_model_and_checkpoint(write, rows_path, tmp_path):
    reference = write("classes", own=True)
    examples = prepare_rows(reference, rows_path, tmp_path / "examples")
    settings = {"model.units": "24", "model.layers": [12, 8], "model.rate": 0}
    metrics = train(
        reference, examples, tmp_path / "out", epochs=20, learning_rate=0.01, **settings
    )
    assert GOOD["classes"](metrics), metrics
    assert_weights_are_those_of("classes", reference, examples)
    [prediction] = load_predictor(str(tmp_path / "out/model")).predict([INSTANCE])
    assert EXPECTED["classes"](prediction), prediction
    content = json.loads((tmp_path / "out/checkpoints/examples.json").read_text())
    assert content["options"] == {"model.units": 24, "model.layers": [12, 8], "model.rate": 0.0}
    with pytest.raises(InputError, match=r"--model\.units 24 .*not --model\.units 25 .*--fresh"):
        train(reference, examples, tmp_path / "out", **settings | {"model.units": 25})


def test_flags_of_an_own_model_are_checked(write):
    needed = ["--workload", write("classes", own=True), "--examples-dir", "-"]
    flags = ["--model.units=24", "--model.layers", "6,4", "--model.rate", "0.5", "--steps", "3"]
    workload = parse_flags([*needed, *flags]).chosen_workload()
    assert workload.settings == {"units": 24, "layers": (6, 4), "rate": 0.5}
    assert parse_flags([*needed, "--model.units=16"]).chosen_workload().settings == {}
    for flag, words in {
        "--model.units=1.5": "--model.units is '1.5'; it must be a whole number",
        "--model.layers=a": "--model.layers is 'a'; it must be whole numbers",
        "--model.unit=3": "has no such setting; did you mean 'units'? it has units (a whole",
        "--linear-optimizer=ftrl": "--linear-optimizer: shop has no linear part; its model has",
        "--model=net": "'net' is not a model of shop; allowed are model",
    }.items():
        with pytest.raises(ConfigError) as error:
            parse_flags([*needed, flag]).recipe()
        assert words in str(error.value), flag


def test_settings_of_the_default_model_have_both_spellings(write):
    reference = write("classes")
    for values in ({"model.hidden_units": "9,8"}, {"model.hidden_units": [9, 8]}):
        config = TrainConfig(**{"workload": reference, "examples_dir": "-", **values})
        assert config.chosen_workload().hidden_units == (9, 8)
        assert config.chosen_workload().changed_options() == {"model.hidden_units": [9, 8]}
    with pytest.raises(
        ConfigError, match=r"--model\.crosses: 'size' in 'size:plan' is not a column"
    ):
        TrainConfig(
            workload=reference, examples_dir="-", model_settings={"crosses": "size:plan"}
        ).recipe()


def test_a_workload_that_fails_is_a_wrong_setting(tmp_path):
    (tmp_path / "workload.py").write_text("workload = 1 / 0")
    with pytest.raises(ConfigError, match=r"^[^-].*workload\.py, line 1: ZeroDivision"):
        TrainConfig(workload=str(tmp_path), examples_dir="-").recipe()


RAW_MODEL = """
import keras
from trainer.workloads import *

def model(inputs, *, labels):
    scaled = keras.layers.Normalization()
    scaled.adapt(keras.ops.array([[40.0], [80.0], [200.0]]))
    words = keras.layers.TextVectorization(output_sequence_length=5)
    words.adapt(["plan basic number 0", "plan pro number 1", "plan team 2"])
    plan = keras.layers.StringLookup(vocabulary=["basic", "pro", "team"], output_mode="one_hot")
    size = inputs["size"]
    known = keras.ops.where(keras.ops.isnan(size), 80.0, size)
    note = keras.layers.Embedding(words.vocabulary_size(), 4)(words(inputs["note"]))
    weekday = keras.layers.CategoryEncoding(num_tokens=7, output_mode="one_hot")
    parts = [
        scaled(known),
        plan(inputs["plan"]),
        keras.layers.GlobalAveragePooling1D()(note),
        weekday(inputs["since"] // 86400 % 7),
    ]
    x = keras.layers.Dense(16, activation="relu")(keras.layers.Concatenate()(parts))
    return keras.Model(inputs, keras.layers.Dense(len(labels))(x))

workload = Table(
    [
        *(Number("size"), Category("plan", is_required=True), Text("note")),
        Timestamp("since", format="%d.%m.%Y"),
    ],
    label=Classes("kind"),
    key="id",
    ignored=["tags", "worth", "kinds", "price"],
    model=model,
    raw_inputs=True,
)
"""


def test_a_model_of_raw_inputs_is_served_without_its_folder(rows_path, tmp_path):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "workload.py").write_text(RAW_MODEL)
    examples = prepare_rows(str(folder), rows_path, tmp_path / "examples")
    metrics = train(str(folder), examples, tmp_path / "out", epochs=10, learning_rate=0.02)
    assert metrics["accuracy"] > 0.98, metrics
    moved = (tmp_path / "out/model").rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(folder)
    rows = [
        {"size": 40, "plan": "basic", "note": "Plan basic", "since": "3.4.2001"},
        {"plan": "team", "note": "a new word", "since": "3.4.2001"},
    ]
    predictor = load_predictor(str(moved))
    predictions = predictor.predict(rows)
    assert [prediction["label"] for prediction in predictions] == ["a", "c"]
    for absent in ({}, {"plan": None}, {"plan": ""}):
        with pytest.raises(InstanceError, match="instance 1: plan is missing, and it is required"):
            predictor.predict([rows[0], {"note": "a new word", **absent}])
