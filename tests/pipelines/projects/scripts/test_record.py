"""Scripts that are run up to their fit, in a process of their own."""

import ast
import random
import re
from contextlib import nullcontext

import numpy as np
import pytest

from components.prepare_examples.errors import DataError
from pipelines.projects.literals import wrapped
from pipelines.projects.scripts import record
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.images import start_images
from pipelines.projects.starter.tables import start_table
from tests.support.data.class_folders import save_images
from tests.support.processes.user_code import forked
from trainer.workloads import load_workload
from trainer.workloads.declarations.labels import Binary, Classes

SCRIPT = """\
import csv
import sys

import keras
import matplotlib.pyplot as plt
import numpy as np

print("arguments", sys.argv[1:])
rows = list(csv.DictReader(open("iris.csv")))
x = np.array([[float(row[name]) for name in "abd"] for row in rows], "float32")
y = np.array(["zxy".index(row["kind"]) for row in rows])
order = np.random.default_rng(1).permutation(len(x))[:160]
mean, std = x.mean(axis=0), x.std(axis=0)
figure, axes = plt.subplots()
axes.plot(x)
get_ipython().run_line_magic("matplotlib", "inline")
model = keras.Sequential()
model.add(keras.layers.Dense(16, activation="relu", input_shape=(3,)))
model.add(keras.layers.Dense(3, activation="softmax"))
model.layers[0].bias.assign(np.full(16, 0.25))
model.compile(keras.optimizers.Adam(0.01), "categorical_crossentropy", metrics=["accuracy"])


def rate(epoch):
    return 0.01 * 0.5**epoch


for seed in range(3):
    history = model.fit(
        (x[order] - mean) / std,
        keras.utils.to_categorical(y[order]),
        epochs=20,
        batch_size=24,
        class_weight={0: 1.0, 1: 1.5, 2: 1.0},
        validation_split=0.2,
        callbacks=[
            keras.callbacks.EarlyStopping(patience=4),
            keras.callbacks.LearningRateScheduler(rate),
            keras.callbacks.ModelCheckpoint("best.keras"),
        ],
    )
print(model.evaluate(x, y))
"""


BINARY_SCRIPT = """\
import csv

import keras
import numpy as np

rows = list(csv.DictReader(open("two.csv")))
x = np.array([[float(row["a"])] for row in rows])
y = np.array([row["kind"] == "x" for row in rows], int)
model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")
model.fit(x, y)
"""


@pytest.fixture(autouse=True)
def forks(monkeypatch):
    """Scripts run in forks, which spares them the import of TensorFlow."""
    monkeypatch.setattr(record, "running", forked)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dice = random.Random(3)
    rows = [
        [*(f"{dice.gauss(2 + at % 3, 0.4):.2f}" for _ in "abcd"), "xyz"[at % 3]]
        for at in range(240)
    ]
    write_rows(tmp_path, "a,b,c,d,kind", *map(",".join, rows))
    return tmp_path


def write_rows(folder, head, *rows):
    (folder / "iris.csv").write_text("\n".join([head, *rows, ""]))


def start(folder, text, label="kind", *, name="train.py"):
    (folder / name).write_text(text)
    return start_table([str(folder / "iris.csv")], label, script=folder / name)


def test_a_whole_script_becomes_a_workload(folder):
    begun = start(folder, SCRIPT)
    write_folder(folder / "iris", begun)
    source = (folder / "iris/workload.py").read_text()
    workload = load_workload(str(folder / "iris"))
    assert workload.label == Classes("kind", values=("z", "x", "y"))
    assert [feature.name for feature in workload.features] == ["a", "b", "d"]
    assert all(feature.is_required for feature in workload.features)
    assert workload.class_weights == {"z": 1, "x": 1.5, "y": 1}
    assert [type(one).__name__ for one in workload.callbacks] == [
        *("EarlyStopping", "LearningRateScheduler"),
    ]
    assert "return 0.01 * 0.5**epoch" in source
    line = 1 + SCRIPT[: SCRIPT.index("model.compile")].count("\n")
    assert f")  # line {line}\n" in source
    model = workload.build_model()
    assert model.layers[-2].bias.numpy().tolist() == [0.25] * 16
    assert model.optimizer.learning_rate.numpy() == pytest.approx(0.01)
    settings = (folder / "iris/run.yaml").read_text()
    assert "  epochs: 20\n  batch_size: 24\n" in settings
    notes = "\n".join(begun.notes)
    for words in (
        "a, b, d: scaled outside the model; a Normalization has the same numbers (the inputs of"
        " line 29)",
        "ModelCheckpoint in line 39 is left out",
        "validation_split of fit in line 29: the eval split takes its place",
        "evaluate in line 42: not taken over",
        'to keep it, declare it in workload.py, as Number("c", low=0), and remove it',
        "never missing: a, b, d; so is_required=True: train.py has no value for a missing one",
    ):
        assert words in notes


def test_a_number_that_the_script_fills_is_not_required(folder):
    rows = (folder / "iris.csv").read_text()
    (folder / "iris.csv").write_text(re.sub(r"\n[^,]+,", "\n,", rows, count=1))
    begun = start(folder, SCRIPT.replace("float(row[name])", "float(row[name] or 3.0)"))
    assert 'Number("a")' in begun.workload
    assert 'Number("b", is_required=True)' in begun.workload


def test_the_requests_have_the_numbers_that_are_required(folder):
    rows = (folder / "iris.csv").read_text()
    (folder / "iris.csv").write_text(re.sub(r"\n([^,]+),[^,]+,", r"\n\1,,", rows, count=1))
    whole = 'rows = [row for row in csv.DictReader(open("iris.csv")) if row["b"]]'
    begun = start(folder, SCRIPT.replace('rows = list(csv.DictReader(open("iris.csv")))', whole))
    assert [{*instance} for instance in begun.instances] == [{"a", "b", "d"}] * 2


@pytest.mark.parametrize(
    ("rows", "note", "weights"),
    [
        (
            "np.flatnonzero(x[:, 0] < 4.2)",
            r"fit has \d+ of the file's 240 rows, none with a above 4",
            1,
        ),
        (
            "np.flatnonzero((y != 1) | (np.arange(240) % 9 == 0))",
            r"fit has the rows of z, x, y 1, 0\.33\d, 1 times as often as the file: class_weights",
            27 / 80,
        ),
    ],
    ids=["filtered", "resampled"],
)
def test_rows_that_a_script_filters_or_resamples_are_said(folder, rows, note, weights):
    chosen = "np.random.default_rng(1).permutation(len(x))[:160]"
    begun = start(folder, SCRIPT.replace(chosen, rows))
    assert [one for one in begun.notes if re.search(note, one)]
    write_folder(folder / "iris", begun)
    found = load_workload(str(folder / "iris")).class_weights
    assert found["x"] / found["z"] == pytest.approx(1.5 * weights)


def test_a_label_that_is_scaled_for_a_crossentropy_is_a_number(folder):
    text = SHUFFLED.replace("x[:150], y", "x[:150], ((y - y.min()) / (y.max() - y.min()))")
    text = text.replace("LINE", "").replace('"mse"', '"binary_crossentropy"')
    text = text.replace("Dense(1)", 'Dense(1, activation="sigmoid")')
    assert 'Regression("b")' in start(folder, text, label="b").workload


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ("import csv", "import nonesuch, csv\nimport missing_one", ["py:1:", "nonesuch", "py:2:"]),
        ("print(model.", "open('absent.csv')\nprint(model.", []),
        ("rows = list", "open('absent.csv')\nrows = list", ["train.py:9: FileNotFoundError"]),
        (
            "(x[order] - mean) / std",
            "np.sin(x[order])",
            ["train.py:29: the rows that reached fit are not rows of the file"],
        ),
        ("model = keras", "sys.exit(3)\nmodel = keras", ["it ended before its first fit (3)"]),
    ],
    ids=["modules", "after fit", "before fit", "other rows", "exit"],
)
def test_the_faults_of_a_script_are_named_with_their_lines(folder, old, new, messages):
    text = SCRIPT.replace(old, new, 1)
    if not messages:
        assert start(folder, text).train == {"epochs": 20, "batch_size": 24}
        return
    with pytest.raises(DataError) as caught:
        start(folder, text)
    for message in messages:
        assert message in str(caught.value)


def test_a_script_of_a_project_runs_in_the_current_folder(folder, monkeypatch):
    (folder / "src").mkdir()
    (folder / "common.py").write_text("WEIGHT = 1.5\n")
    text = SCRIPT.replace("1: 1.5", "1: common.WEIGHT").replace("import csv", "import common, csv")
    assert start(folder, text, name="src/train.py").train == {"epochs": 20, "batch_size": 24}
    monkeypatch.chdir(folder / "src")
    with pytest.raises(DataError, match=f"'common': it is in {folder}; start trainyard new in"):
        start(folder, text, name="src/train.py")


FRAMES = """\
import csv
import numpy as np

class DataFrame(dict):
    columns = property(list)
    index = property(lambda self: range(len(self["a"])))
    iloc = None

    def to_numpy(self):
        return np.stack(list(self.values()), axis=1).astype(float)

def read_csv(path):
    rows = list(csv.DictReader(open(path)))
    frame = DataFrame({name: np.array([row[name] for row in rows]) for name in rows[0]})
    for name in "abcd":
        if " " not in "".join(frame[name]):
            frame[name] = frame[name].astype(float)
    return frame

def get_dummies(frame):
    texts = frame.pop("d")
    return DataFrame({**frame, **{f"d_{value}": texts == value for value in np.unique(texts)}})
"""
FRAME = """\
import keras
import numpy as np
import frames as pd

df = pd.read_csv("iris.csv")
y = np.searchsorted(["x", "y", "z"], df.pop("kind"))
model = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
model.compile(loss="sparse_categorical_crossentropy")
model.fit(df, y)
"""
OWN_STEP = """\
class Net(keras.Sequential):
    def summary(self):
        return ""

    def train_step(self, data):
        return super().train_step(data)

model = Net([keras.layers.Dense(3, activation="softmax")])
"""
REFUSED = {
    "dummies": (
        {"y = np": "df = pd.get_dummies(df)\ny = np"},
        r"train.py:6: .* d, which are numbers, .*coerce\"\)\.fillna\(0\)",
    ),
    "several columns": (
        {"y = np": 'df["ratio"] = df["a"] / df["b"]\ny = np'},
        r"train.py:6: .* the model gets as ratio: write them into the file",
    ),
    "classes joined": (
        {'["x", "y", "z"]': '["y", "z"]'},
        "train.py:6: several values of kind are one class",
    ),
    "several labels": ({"(df, y)": "(df, [y, y])"}, "train.py:9: fit gets 2 labels"),
    "columns of labels": (
        {"(df, y)": "(df, np.stack([df['a'], df['b']], axis=1))"},
        "train.py:9: fit gets 2 labels",
    ),
    "labels of a row": (
        {"(df, y)": "(df, np.stack([y > 0, y > 1], axis=1))"},
        r"train.py:9: fit gets 2 labels, of which a row may have several: .* such as a\|b",
    ),
    "own train step": (
        {'model = keras.Sequential([keras.layers.Dense(3, activation="softmax")])\n': OWN_STEP},
        "train.py:11: Net has its own train_step: .*compute_loss",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_over_is_named_with_the_line_to_change(folder, name):
    changes, message = REFUSED[name]
    (folder / "frames.py").write_text(FRAMES)
    if name == "dummies":
        rows = (folder / "iris.csv").read_text()
        (folder / "iris.csv").write_text(re.sub(r"[^,]+,x\n", " ,x\n", rows, count=1))
    text = FRAME
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    with pytest.raises(DataError, match=message):
        start(folder, text)


SPLIT = """\
def train_test_split(*arrays):
    size = len(arrays[0])
    order = [(at * 7) % size for at in range(size)]
    return [array[part] for array in arrays for part in (order[: size // 2], order[size // 2 :])]
"""
ALIKE = """\
import csv
import keras
import numpy as np
from sklearn.model_selection import train_test_split

rows = list(csv.DictReader(open("iris.csv")))
x = np.array([[row["size"] == name for name in ("big", "small")] for row in rows], "float32")
y = np.array([row["kind"] == "b" for row in rows], "float32")
train, test, labels, test_labels = train_test_split(x, y)
train, valid, labels, valid_labels = train_test_split(train * 2, labels)
model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
model.compile(loss="binary_crossentropy")
model.fit(train, labels)
"""


def test_rows_alike_are_told_apart_by_the_split_of_scikit_learn(folder):
    (folder / "sklearn").mkdir()
    (folder / "sklearn/__init__.py").write_text("")
    (folder / "sklearn/model_selection.py").write_text(SPLIT)
    dice = random.Random(5)
    rows = [f"{dice.choice(['big', 'small'])},{dice.choice('ab')}" for _ in range(240)]
    write_rows(folder, "size,kind", *rows)
    begun = start(folder, ALIKE)
    assert 'Category("size")' in begun.workload


SHUFFLED = """\
import csv, random
import keras
import numpy as np
import tensorflow as tf

def load():
    table = np.array([[row["a"], row["b"]] for row in rows], "float32")
    LINE
    return table[:, :1], table[:, 1]

rows = list(csv.DictReader(open("iris.csv")))
x, y = load()
x = (x - x.mean()) / x.std()
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(loss="mse")
model.fit(x[:150], y[:150])
"""
SHUFFLES = {
    "in place": "np.random.shuffle(table)",
    "a generator": "np.random.default_rng(3).shuffle(table)",
    "copied": "table = np.random.default_rng(3).permutation(table)",
    "legacy state": "table = table[np.random.RandomState(3).permutation(len(table))]",
    "a list": "random.shuffle(parts := list(range(len(table)))); table = table[parts]",
    "twice": "np.random.shuffle(table); table = np.random.permutation(table[:200])",
    "sorted": "order = np.argsort(table[:, 0]); table = table[order]; globals()['kept'] = order",
    "a data set": "table = np.array(list(tf.data.Dataset.from_tensor_slices(table).shuffle(99)))",
}


@pytest.mark.parametrize("name", SHUFFLES)
def test_the_rows_are_known_after_a_shuffle(folder, name):
    begun = start(folder, SHUFFLED.replace("LINE", SHUFFLES[name]), label="b")
    assert any("scaled outside the model" in note for note in begun.notes)


@pytest.mark.parametrize(
    ("count", "steps", "expected"),
    [
        ("", ", steps_per_epoch=9", {"steps": 27, "batch_size": 16}),
        ("-1", ", steps_per_epoch=9", {"steps": 27, "batch_size": 16}),
        ("4", "", {"epochs": 12, "batch_size": 16}),
    ],
)
def test_a_data_set_that_repeats_its_rows_has_each_once(folder, count, steps, expected):
    data = f"tf.data.Dataset.from_tensor_slices((x, y)).shuffle(240).repeat({count}).batch(16)"
    fit = f"model.fit({data}.prefetch(2), epochs=3{steps})"
    text = SHUFFLED.replace("LINE", "").replace("model.fit(x[:150], y[:150])", fit)
    begun = start(folder, text, label="b")
    assert begun.train == expected
    assert any("scaled outside the model" in note for note in begun.notes)
    is_said = any("each row 4 times: epochs is 12" in note for note in begun.notes)
    assert is_said == (not steps)


TAGS = """\
import csv
import keras
import numpy as np

rows = list(csv.DictReader(open("iris.csv")))
x = np.array([[float(row["size"])] for row in rows])
y = np.array([[name in row["tags"] for name in ("cold", "new", "red")] for row in rows])
model = keras.Sequential([keras.layers.Dense(3, activation="sigmoid")])
model.compile(loss="binary_crossentropy")
model.fit(x[20:], y[20:])
"""


def write_tags(folder):
    lists = ["new|red", "cold", "red", "cold|new"]
    rows = [f"{at % 9},{lists[at % 4]}" for at in range(120)]
    write_rows(folder, "size,tags", *rows)


def test_weights_of_classes_that_a_label_lacks_are_refused(folder):
    write_tags(folder)
    text = TAGS.replace("y[20:])", "y[20:], class_weight={0: 1.0, 1: 2.0})")
    with pytest.raises(DataError, match=r"train.py:1\d: class_weight is for a label of classes"):
        start(folder, text, label="tags")


@pytest.mark.parametrize("line", ["", "y[:, 0] = x[:, 0] > 4\n"], ids=["lists", "others"])
def test_several_labels_of_a_row_are_those_in_the_lists_of_the_file(folder, line):
    write_tags(folder)
    text = TAGS.replace("model = ", f"{line}model = ", 1)
    if line:
        with pytest.raises(DataError, match=r"train.py:1\d: .*tags"):
            start(folder, text, label="tags")
    else:
        assert 'Multilabel("tags", separator="|")' in start(folder, text, label="tags").workload


def test_the_logarithm_of_a_large_number_has_the_shift_of_the_script(folder):
    rows = [f"{at % 7},{50_000 + 431 * at},x" for at in range(240)]
    write_rows(folder, "a,b,kind", *rows)
    text = SHUFFLED.replace(
        "LINE", "table = table.astype(float); table[:, 1] = np.log1p(table[:, 1])"
    )
    write_folder(folder / "own", start(folder, text, label="b"))
    assert "keras.ops.log(labels + 1.0), keras.ops" in (folder / "own/workload.py").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "classes"}, "--kind classes: train.py trains with binary; omit --kind"),
        ({"positive": "y"}, "--positive y: train.py trains with x; omit --positive"),
        ({"kind": "binary", "positive": "x"}, ""),
    ],
)
def test_options_that_contradict_the_script_are_refused(folder, options, words):
    rows = [f"{at % 7},{'xy'[at % 2]}" for at in range(60)]
    (folder / "two.csv").write_text("\n".join(["a,kind", *rows]) + "\n")
    (folder / "train.py").write_text(BINARY_SCRIPT)
    with pytest.raises(DataError, match=words) if words else nullcontext():
        start_table([str(folder / "two.csv")], "kind", script=folder / "train.py", **options)


def test_folds_and_absent_packages_in_comments_are_no_obstacle(folder):
    begun = start(folder, f"# KFold() of sklearn, pandas\n{SCRIPT}")
    assert any("gate.folds=5" in note for note in begun.notes)
    assert not any("--kind" in note for note in begun.notes)


def test_a_notebook_is_refused_with_the_command_that_makes_a_script_of_it(folder):
    with pytest.raises(DataError, match=r"notebook.*nbconvert --to script train\.ipynb"):
        start(folder, "{}", name="train.ipynb")


TOKENS = """\
import csv
import keras
import numpy as np
import tensorflow as tf

rows = list(csv.DictReader(open("iris.csv")))
words = tf.keras.preprocessing.text.Tokenizer()
words.fit_on_texts([row["text"] for row in rows])
x = tf.keras.utils.pad_sequences(words.texts_to_sequences([row["text"] for row in rows][::2]))
model = keras.Sequential([keras.layers.Embedding(9, 4), keras.layers.Flatten()])
model.add(keras.layers.Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy")
model.fit(x, np.array([row["kind"] == "b" for row in rows], "float32")[::2])
"""


def test_an_encoder_of_texts_that_is_no_layer_is_named_with_its_line(folder):
    dice = random.Random(5)
    rows = [f"{' '.join(dice.choices(['one', 'two'], k=4))},{dice.choice('ab')}" for _ in "x" * 99]
    write_rows(folder, "text,kind", *rows)
    with pytest.raises(DataError, match=r"train.py:7: words, a Tokenizer, .*TextVectorization"):
        start(folder, TOKENS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("short(1)", "short(1)"),
        (
            "x = layer(mean=[1.0, 2.0, 3.0], variance=[4.0])(x)",
            "x = layer(\n    mean=[1.0, 2.0, 3.0],\n    variance=[4.0],\n)(x)",
        ),
        (
            "f('a, (b', [1, 2])  # line 3, too long",
            "f(\n    'a, (b', [1, 2],\n)  # line 3, too long",
        ),
    ],
)
def test_long_lines_are_broken_at_commas(line, expected):
    assert wrapped(line, 30) == expected


IMAGE_SCRIPT = """\
import json, os
import keras
import tensorflow as tf

workers = {"cluster": {"worker": ["localhost:12345", "localhost:23456"]}}
os.environ["TF_CONFIG"] = json.dumps({**workers, "task": {"type": "worker", "index": 0}})
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = keras.utils.image_dataset_from_directory(
    "photos", image_size=(24, 20), batch_size=4, label_mode="binary"
)
data = data.map(lambda images, labels: (images / 255.0, labels))
with strategy.scope():
    model = keras.Sequential()
model.add(keras.layers.RandomFlip())
model.add(keras.layers.Flatten())
model.add(keras.layers.Dense(1, activation="sigmoid"))
model.compile("adam", "binary_crossentropy")
model.fit(data, epochs=3, class_weight={0: 1.0, 1: 2.0})
"""


@pytest.fixture
def start_photos(tmp_path):
    """Return what `new` makes of class folders of images and a script."""
    save_images(tmp_path / "photos", [(40 + at, 30) for at in range(12)])

    def do(text):
        (tmp_path / "train.py").write_text(text)
        return start_images(str(tmp_path / "photos"), script=tmp_path / "train.py")

    return do


def test_a_script_that_trains_on_images_becomes_a_workload(tmp_path, start_photos):
    write_folder(tmp_path / "own", start_photos(IMAGE_SCRIPT))
    workload = load_workload(str(tmp_path / "own"))
    assert (workload.size, workload.channels, workload.raw_inputs) == ((24, 20), 3, True)
    assert workload.label == Binary("label", positive="dogs", names=("cats", "dogs"))
    assert workload.class_weights == {"cats": 1, "dogs": 2}
    layers = [type(layer).__name__ for layer in workload.build_model().layers]
    assert layers == ["InputLayer", "Rescaling", "RandomFlip", "Flatten", "Dense"]
    assert "  epochs: 3\n  batch_size: 4\n" in (tmp_path / "own/run.yaml").read_text()


def test_classes_of_images_have_the_numbers_that_the_script_gives_them(start_photos):
    listed = 'label_mode="binary", class_names=NAMES'
    text = IMAGE_SCRIPT.replace('label_mode="binary"', listed)
    begun = start_photos(text.replace("workers", 'NAMES = ["dogs", "cats"]\nworkers', 1))
    assert 'Binary("label", positive="cats", names=("dogs", "cats"))' in begun.workload
    assert 'class_weights={"dogs": 1, "cats": 2}' in begun.workload


def test_class_names_within_a_function_are_refused_with_the_way_out(start_photos):
    listed = 'label_mode="binary", class_names=names'
    text = IMAGE_SCRIPT.replace('label_mode="binary"', listed)
    load = "def load(names):\n    return keras.utils"
    text = text.replace("data = keras.utils", load, 1)
    text = text.replace("data = data.map", 'data = load(["dogs", "cats"]).map', 1)
    with pytest.raises(DataError, match=r"train.py:10: names: .*; assign it outside of functions"):
        start_photos(text)


SIGNS = """\
import csv
import keras
import numpy as np

rows = list(csv.DictReader(open("iris.csv")))
x = np.array([[float(row["a"])] for row in rows])
y = np.array([1 if row["kind"] == "yes" else -1 for row in rows])
model = keras.Sequential([keras.layers.Dense(1, activation="tanh")])
model.compile(loss="hinge")
model.fit(x, y, class_weight={-1: 1.0, 1: 3.0})
"""


def test_classes_of_any_numbers_have_the_weights_of_the_script(folder):
    rows = [f"{at * 0.7:.1f},{'yes' if at % 3 else 'no'}" for at in range(120)]
    write_rows(folder, "a,kind", *rows)
    begun = start(folder, SIGNS)
    assert 'class_weights={"no": 1, "yes": 3}' in begun.workload
    assert not any("times as often" in note for note in begun.notes)


def test_layers_of_half_precision_are_named(folder):
    policy = 'keras.mixed_precision.set_global_policy("mixed_float16")\nx, y = load()'
    text = SHUFFLED.replace("LINE", "").replace("x, y = load()", policy)
    with pytest.raises(DataError, match=r"train\.py:17: .*it has layers of float16: remove"):
        start(folder, text, label="b")


CODES = """\
import csv
import keras
import numpy as np

rows = list(csv.DictReader(open("iris.csv")))
city = np.array(["lmnop".index(row["city"]) for row in rows])
known = np.flatnonzero(city != 1)
model = keras.Sequential([keras.layers.Embedding(5, 2), keras.layers.Flatten()])
model.add(keras.layers.Dense(1))
model.compile(loss="mse")
model.fit(city[known][:, None], np.array([float(row["b"]) for row in rows])[known])
"""


def test_an_unknown_value_has_the_lowest_number_also_of_codes_with_gaps(folder):
    rows = [f"{'lmnop'[at % 5]},{at * 0.7:.1f}" for at in range(120)]
    write_rows(folder, "city,b", *rows)
    begun = start(folder, CODES, label="b")
    assert any("its 4 values, 0 for an unknown value" in note for note in begun.notes)


FUNCTION = """\
import keras

def build():
    size = keras.Input((1,), name="a")
    color = keras.Input((), name="kind", dtype="string")
    words = keras.layers.StringLookup(vocabulary=["x", "y"], output_mode="one_hot")
    x = keras.layers.Concatenate()([size, words(color)])
    model = keras.Model([size, color], keras.layers.Dense(1)(x))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model

if __name__ == "__main__":
    build().fit(x, y, epochs=6, batch_size=64, sample_weight=[1], callbacks=[
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 * 0.5**epoch)])
"""


def test_a_function_with_inputs_called_like_columns_gets_their_own_values(folder):
    begun = start(folder, FUNCTION, label="b")
    write_folder(folder / "own", begun)
    workload = load_workload(str(folder / "own"))
    assert [feature.name for feature in workload.features] == ["a", "kind"]
    assert workload.raw_inputs
    [scheduler] = workload.callbacks
    assert scheduler.schedule(3) == 0.1 / 8
    assert begun.train == {"epochs": 6, "batch_size": 64}
    assert any("sample_weight of fit in line 13 is not taken" in note for note in begun.notes)
    assert any("line 13: NameError: name 'x' is not defined" in note for note in begun.notes)
    inputs = {"a": np.ones((2, 1), np.float32), "kind": np.array([["x"], ["z"]])}
    assert workload.build_model()(inputs).shape == (2, 1)


def test_numbers_that_are_never_missing_are_one_input_each(folder):
    rows = [f"{k * k * 0.7:.1f},{'' if k == 5 else k % 7},{'xy'[k % 2]}" for k in range(100)]
    write_rows(folder, "a,b,kind", *rows)
    begun = start(folder, "import keras\ndef build():\n    return keras.Sequential()\n")
    required = {
        ast.literal_eval(call.args[0]): "is_required" in {one.arg for one in call.keywords}
        for call in ast.walk(ast.parse(begun.workload))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Number"
    }
    assert required == {"a": True, "b": False}
    assert any(note.startswith("never missing: a; so is_required=True") for note in begun.notes)


BEFORE = """\
import csv
import keras
import numpy as np
import tensorflow as tf

rows = list(csv.DictReader(open("iris.csv")))
columns = {"a": np.array([float(row["a"]) for row in rows]),
           "kind": np.array([row["kind"] for row in rows])}
y = np.array([float(row["b"]) for row in rows]) / 10
space = keras.utils.FeatureSpace(
    {"a": "float_normalized",
     "kind": keras.utils.FeatureSpace.string_categorical(num_oov_indices=0)},
    output_mode="concat",
)
data = tf.data.Dataset.from_tensor_slices((columns, y)).shuffle(240).batch(16)
space.adapt(data.map(lambda x, y: x))
encoded = space.get_encoded_features()
model = keras.Model(encoded, keras.layers.Dense(1)(encoded))
model.compile("adam", keras.losses.Huber())
model.fit(data.map(lambda x, y: (space(x), y)), epochs=2)
"""


def test_what_a_script_does_before_fit_is_done_in_the_model(folder):
    begun = start(folder, BEFORE, label="b")
    write_folder(folder / "own", begun)
    source = (folder / "own/workload.py").read_text()
    workload = load_workload(str(folder / "own"))
    assert [feature.name for feature in workload.features] == ["a", "kind"]
    assert begun.train == {"epochs": 2, "batch_size": 16}
    assert "keras.losses.Huber().call(labels / 10.0, outputs / 10.0)" in source
    inputs = {"a": np.array([[2.0]] * 2, np.float32), "kind": np.array([["x"], ["unknown"]])}
    assert workload.build_model()(inputs).shape == (2, 1)


def test_a_script_that_does_not_reach_its_fit_is_ended(folder, monkeypatch):
    monkeypatch.setattr(record, "TIMEOUT_SECONDS", 1)
    with pytest.raises(DataError, match=r"train.py.*: still running after 1 s, before its first"):
        start(folder, SCRIPT.replace("import csv", "import csv, time; time.sleep(300)"))
