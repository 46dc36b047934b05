"""Keras scripts that people have, each with the table that it is for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HEAD = """\
import csv
import keras
import numpy as np
import trainyard
from keras import layers
rows = list(csv.DictReader(open("data.csv")))
"""
# x and y of `flowers`.
NUMBERS = """\
x = np.array([[float(row[name]) for name in "abcd"] for row in rows], "float32")
y = np.array(["xyz".index(row["kind"]) for row in rows])
"""
FIT = 'trainyard.fit({}, x, y, rows=rows, label="kind"{})\n'
NET = "keras.Sequential([keras.Input((4,)), layers.Dense(3{})])"
LOGITS = "keras.losses.SparseCategoricalCrossentropy(from_logits=True)"


def flowers(folder: Path) -> None:
    """Write 240 rows of four numbers and a kind."""
    chance = np.random.default_rng(1)
    rows = []
    for number in range(240):
        values = chance.normal(3, 0.5, 4)
        values[number % 3] += 1
        rows.append(",".join([*(f"{value:.1f}" for value in values), "xyz"[number % 3]]))
    (folder / "data.csv").write_text("\n".join(["a,b,c,d,kind", *rows, ""]))


def houses(folder: Path) -> None:
    """Write 300 rows of a number, a text and a whole number, and whether it was sold."""
    chance = np.random.default_rng(2)
    rows = []
    for number in range(300):
        size, floors = int(chance.normal(120, 30)), number % 4 + 1
        is_sold = size + 20 * (number % 3) > 130
        rows.append(f"{size},{('red', 'green', 'blue')[number % 3]},{floors},{'ny'[is_sold]}")
    (folder / "data.csv").write_text("\n".join(["size,color,floors,kind", *rows, ""]))


def words(folder: Path) -> None:
    """Write 240 rows of a word and a number, and a kind that follows from the word."""
    rows = [f"{('red', 'green', 'blue')[n % 3]},{n},{'xyz'[n % 3]}" for n in range(240)]
    (folder / "data.csv").write_text("\n".join(["word,weight_of_it,kind", *rows, ""]))


@dataclass(frozen=True)
class ScriptCase:
    """A script and what `new` makes of it.

    Attributes:
        source: of the script.
        write: writes data.csv.
        says: texts of what `new` prints.
        workload: texts of workload.py.
        run: texts of run.yaml.
        model: text of the check's finding about the model; "" if the check is not made.
    """

    source: str
    write: Callable[[Path], None] = flowers
    says: tuple[str, ...] = ()
    workload: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    model: str = ""


CASES = {
    "softmax_compiled_at_module_level": ScriptCase(
        HEAD + NUMBERS + "SOFTMAX = 'softmax'\n"
        f"def create_model():\n    return {NET.format(', activation=SOFTMAX')}\n"
        "model = create_model()\n"
        'model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "categorical_crossentropy")\n'
        + FIT.format("model", "").replace("y,", "keras.utils.to_categorical(y),"),
        workload=("optimizer=keras.optimizers.SGD(momentum=0.9)",),
    ),
    "stops_early": ScriptCase(
        HEAD + NUMBERS + f"def build():\n    model = {NET.format('')}\n"
        f'    model.compile("adam", {LOGITS})\n    return model\nif __name__ == "__main__":\n    '
        + FIT.format(
            "build()",
            ", epochs=30, batch_size=16, class_weight={0: 1, 1: 2, 2: 1},"
            'callbacks=[keras.callbacks.EarlyStopping(monitor="loss", patience=1)]',
        ),
        workload=(
            'EarlyStopping(monitor="loss", patience=1)',
            'class_weights={"x": 1, "y": 2, "z": 1}',
        ),
        run=("epochs: 30", "batch_size: 16"),
    ),
    "subclass": ScriptCase(
        HEAD
        + NUMBERS
        + "class Net(keras.Model):\n    def __init__(self, size):\n        super().__init__()\n"
        "        self.out = layers.Dense(size)\n    def call(self, inputs):\n"
        f"        return self.out(inputs)\nmodel = Net(3)\nmodel.compile('adam', {LOGITS})\n"
        + FIT.format("model", ""),
        workload=("outputs = Net(size=3)", "# Line 9 of script.py."),
    ),
    "adapts": ScriptCase(
        HEAD + NUMBERS + "norm = layers.Normalization()\nnorm.adapt(x)\n"
        "model = keras.Sequential([keras.Input((4,)), norm, layers.Dense(3)])\n"
        f"model.compile('adam', {LOGITS})\n" + FIT.format("model", ""),
        says=("frozen, as the script has learnt it: mean of norm",),
        workload=("is_required=True", "mean=[3"),
    ),
    "whole_script": ScriptCase(
        HEAD + NUMBERS + "norm = layers.Normalization()\nnorm.adapt(x)\n"
        "METRICS = [keras.metrics.SparseCategoricalAccuracy(name='accuracy')]\n"
        "model = keras.Sequential([keras.Input((4,)), norm, layers.Dense(16, 'relu'),\n"
        "    layers.Dense(3, activation='softmax')])\n"
        "model.compile(keras.optimizers.Adam(0.01), 'sparse_categorical_crossentropy',\n"
        "    metrics=METRICS)\n"
        + FIT.format(
            "model",
            ", epochs=20, batch_size=24, class_weight={0: 1.0, 1: 1.5, 2: 1.0},"
            "validation_split=0.2, callbacks=[keras.callbacks.EarlyStopping(patience=4)]",
        ),
        says=("up to trainyard.fit", "validation_split of fit: the eval split takes"),
        workload=(
            *("keras.layers.Normalization(", "keras.optimizers.Adam(learning_rate=0.01)"),
            *('class_weights={"x": 1.0, "y": 1.5, "z": 1.0}', "EarlyStopping(patience=4)"),
        ),
        run=("epochs: 20", "batch_size: 24"),
        model="returns probabilities",
    ),
    "raw_columns": ScriptCase(
        HEAD + 'size = keras.Input((1,), name="size")\n'
        'color = keras.Input((1,), name="color", dtype="string")\n'
        'floors = keras.Input((1,), name="floors", dtype="int64")\n'
        "parts = [layers.Normalization(mean=120.0, variance=900.0)(size),\n"
        '    layers.StringLookup(vocabulary=["red", "green"], output_mode="one_hot")(color),\n'
        '    layers.CategoryEncoding(num_tokens=5, output_mode="one_hot")(floors)]\n'
        'out = layers.Dense(1, activation="sigmoid")(layers.Concatenate()(parts))\n'
        'model = keras.Model({"size": size, "color": color, "floors": floors}, out)\n'
        'model.compile("adam", "binary_crossentropy", metrics=["AUC"])\n'
        'x = {n: np.array([row[n] for row in rows]) for n in ("size", "color", "floors")}\n'
        'x["size"], x["floors"] = x["size"].astype("float32"), x["floors"].astype("int64")\n'
        'x["color"] = keras.ops.convert_to_tensor(x["color"])\n'
        'y = np.array([row["kind"] == "y" for row in rows])\n' + FIT.format("model", ""),
        houses,
        workload=('Category("color")', 'Binary("kind", positive="y"'),
        model="returns probabilities (the last layer is sigmoid)",
    ),
    "two_outputs": ScriptCase(
        HEAD + NUMBERS + 'inputs = keras.Input((4,))\nx1 = layers.Dense(8, "relu")(inputs)\n'
        'model = keras.Model(inputs, {"kind": layers.Dense(3)(x1), "embedding": x1})\n'
        f'model.compile("adam", {{"kind": {LOGITS}}})\n'
        + FIT.format("model", "").replace("y,", '{"kind": y},'),
        model="returns logits",
    ),
    "scheduler": ScriptCase(
        HEAD + NUMBERS + f"model = {NET.format('')}\n"
        f"model.compile(keras.optimizers.SGD(0.1), {LOGITS})\n"
        + FIT.format(
            "model",
            ", epochs=6, batch_size=64, callbacks=["
            "keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 * 0.5**epoch)]",
        ),
        workload=("LearningRateScheduler(schedule=lambda epoch: 0.1 * 0.5**epoch)",),
        run=("epochs: 6", "batch_size: 64"),
    ),
    "lookup": ScriptCase(
        HEAD + 'word = keras.Input((1,), dtype="string", name="word")\n'
        'index = layers.StringLookup(vocabulary=["red", "green", "blue"])(word)\n'
        "out = layers.Dense(3)(layers.Flatten()(layers.Embedding(8, 4)(index)))\n"
        f"model = keras.Model(word, out)\nmodel.compile('adam', {LOGITS})\n"
        'x = keras.ops.convert_to_tensor([[row["word"]] for row in rows])\n'
        'y = np.array(["xyz".index(row["kind"]) for row in rows])\n' + FIT.format("model", ""),
        words,
        workload=('Category("word")',),
    ),
    "regularized": ScriptCase(
        HEAD
        + NUMBERS
        + "model = "
        + NET.format(", kernel_regularizer=keras.regularizers.L2(0.5)")
        + f"\nmodel.compile('adam', {LOGITS})\n"
        + FIT.format("model", ""),
        workload=("kernel_regularizer=keras.regularizers.L2(l2=0.5)",),
    ),
}
