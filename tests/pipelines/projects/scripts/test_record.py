"""Scripts that are run up to trainyard.fit; one in a process of its own."""

import random
import sys

import keras
import numpy as np
import pytest

import trainyard
from components.prepare_examples.errors import DataError
from pipelines.projects.scripts import record
from pipelines.projects.starter.folder import write_folder
from pipelines.projects.starter.images import start_images
from pipelines.projects.starter.tables import start_table
from pipelines.projects.user_code import running
from tests.support.data.class_folders import save_images
from tests.support.processes.script import run_scripts_here
from trainer.workloads import load_workload
from trainer.workloads.declarations.labels import Binary, Classes, Regression

# `Frame` is what a script has of pandas: columns, an index, and rows by their numbers.
SCRIPT = """\
import csv
import sys
import keras
import numpy as np
import trainyard

class Frame:
    iloc = None
    def __init__(self, index, **columns):
        self.index, self.columns = index, list(columns)
        self.values = np.stack(list(columns.values()), axis=1)
        self.shape = self.values.shape
    def to_numpy(self):
        return self.values

rows = list(csv.DictReader(open("data.csv")))
age, bmi = (np.array([float(row[name] or 28) for row in rows]) for name in ("age", "bmi"))
plans, rings = (np.array([row[name] for row in rows]) for name in ("plan", "rings"))
y, label, told, x, more = rings.astype(int), "rings", np.arange(len(rows)), None, {}
hot = np.stack([plans == plan for plan in ("basic", "plus")], axis=1)
layer = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
compiled = {"optimizer": "adam", "loss": "mse"}
CHANGES
x = np.stack([(age - age.mean()) / age.std(), bmi], axis=1) if x is None else x
layer.compile(**compiled)
LINE
"""
FRAME = "rows = 0; frame = pd.read_csv('data.csv')"
FIT = 'trainyard.fit(layer, x, y, rows=told, label=label, **{"epochs": 5, **more})'


@pytest.fixture(autouse=True)
def here(monkeypatch):
    run_scripts_here(monkeypatch)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return what `new` makes of the script with some changes, as a folder and its notes."""
    monkeypatch.chdir(tmp_path)
    dice = random.Random(3)
    rows = [
        f"{18 + at % 47},{'' if at == 7 else dice.gauss(28, 5):.5},"
        f"{('basic', 'plus', 'pro')[dice.randrange(3)]},"
        f"{3 + at % 47 // 9},{'no' if dice.random() < 0.6 else 'yes'},{dice.choice([1, 2])}"
        for at in range(300)
    ]
    (tmp_path / "data.csv").write_text("\n".join(["age,bmi,plan,rings,left,weight", *rows, ""]))

    def do(changes, line=FIT, **options):
        text = SCRIPT.replace("CHANGES", changes).replace("LINE", line)
        (tmp_path / "train.py").write_text(text)
        begun = start_table(
            ["data.csv"], options.pop("label", ""), script=tmp_path / "train.py", **options
        )
        write_folder(tmp_path / "own", begun)
        return load_workload(str(tmp_path / "own")), begun

    return do


def test_numbers_on_a_line_go_on_beyond_the_file(start):
    """A whole-number label is a regression, as its loss says; the model is the script's."""
    workload, begun = start("")
    assert workload.label == Regression("rings")
    assert [feature.name for feature in workload.features] == ["age", "bmi"]
    assert [feature.is_required for feature in workload.features] == [True, False]
    assert begun.train == {"epochs": 5, "batch_size": 32}
    model = workload.build_model()
    inputs = {name: np.array([[80.0], [80.0]], np.float32) for name in ("age", "bmi")}
    first = keras.Model(model.inputs, model.layers[-1].input)
    known = [18 + at % 47 for at in range(300)]
    expected = [(80 - np.mean(known)) / np.std(known), 80]
    np.testing.assert_allclose(first(inputs), [expected] * 2, rtol=1e-5)
    assert any("frozen, as the script has learnt it: scale of age" in n for n in begun.notes)


ONE_HOT = "x = np.concatenate([age[:, None], hot, np.log1p(bmi)[:, None]], axis=1)"
LOGITS = 'compiled |= {"loss": keras.losses.BinaryCrossentropy(from_logits=True)}'
LEFT = 'y, label = np.array([row["left"] == "yes" for row in rows]), "left"'
TAKEN = {
    "texts": (
        ONE_HOT,
        [
            'keras.ops.cast(keras.ops.equal(inputs["plan"], "basic"), "float32")',
            'keras.ops.log(inputs["bmi"] + 1.0)',
        ],
        [
            "plan is one-hot in x, all 0 for an unknown text",
            "frozen, as the script has learnt it: 3 texts of plan",
        ],
    ),
    "codes": (
        "x = np.unique(plans, return_inverse=True)[1][:, None]",
        ["keras.ops.array([0.0, 0.0, 1.0, 2.0])"],
        ["plan is a number for each text in x, 0 for an unknown one"],
    ),
    "dict": (
        "x = {'bmi': bmi, 'plan': plans[:, None]}; size = keras.Input((), name='bmi')\n"
        "plan = keras.Input((1,), name='plan', dtype='string'); word = keras.layers.StringLookup("
        "vocabulary=['pro', 'plus'], output_mode='one_hot')(plan)\n"
        "both = keras.layers.Concatenate()([word, keras.ops.expand_dims(size, -1)])\n"
        "layer = keras.Model([size, plan], keras.layers.Dense(1)(both))",
        ["keras.ops.squeeze", 'vocabulary=["pro", "plus"],'],
        [],
    ),
    "layer of the script": (
        "bins = keras.layers.Discretization([25.0, 40.0], output_mode='one_hot')\n"
        "x = np.concatenate([np.asarray(bins(age[:, None])), bmi[:, None]], axis=1)",
        ["bin_boundaries=[25.0, 40.0],"],
        ["age: Discretization is within the model now"],
    ),
    "logits": (
        f"{LEFT}; {LOGITS}; compiled['metrics'] = ['accuracy']; "
        "more['class_weight'] = {1: np.float64(2)}",
        [
            'keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)',
            'class_weights={"yes": 2.0}',
        ],
        ["accuracy counts logits from 0, the probability 0.5"],
    ),
    "a layer of ops": (
        "layer = keras.Sequential([keras.layers.Lambda(lambda t: t * 2.0), keras.layers.Dense(1)])",
        ["keras.layers.Lambda(function=lambda t: t * 2.0)"],
        [],
    ),
    "scheduler": (
        "rate, by = 0.5, keras.callbacks.LearningRateScheduler\n"
        "more = {'callbacks': [by(lambda epoch: rate / (epoch + 1))]}",
        ["rate = 0.5", "LearningRateScheduler(schedule=lambda epoch: rate / (epoch + 1))"],
        [],
    ),
    "sample weights": (
        "more = {'sample_weight': [float(row['weight']) for row in rows], 'validation_split': 0.2}",
        ['weight="weight"'],
        ["validation_split of fit: the eval split takes its place"],
    ),
    "weights": (
        "layer.build((None, 2)); layer.layers[0].bias.assign(np.full(4, 0.25))",
        ["load_weights"],
        ["given.weights.h5 has the weights that it sets, or trains before this fit"],
    ),
    "a loss without get_config": (
        "class Power(keras.losses.Loss):\n    def __init__(self, power=2.0):\n"
        "        super().__init__()\n        self.power = power\n"
        "    def call(self, wanted, made):\n"
        "        return keras.ops.mean((wanted - made)**self.power)\n"
        "compiled['loss'] = Power(4.0)",
        ["loss=Power(power=4.0)"],
        [],
    ),
    "functions": (
        "@keras.saving.register_keras_serializable()\nclass Gate(keras.layers.Layer):\n"
        "    def __init__(self, units, **more):\n"
        "        super().__init__(**more)\n        self.units = units\n"
        "        self.dense = keras.layers.Dense(units)\n"
        "    def call(self, x):\n        return keras.ops.tanh(self.dense(x)) * SCALE\n"
        "    def get_config(self):\n        return {**super().get_config(), 'units': self.units}\n"
        "SCALE = 0.3\ndef double(values):\n    return 2 * values\n"
        "first = keras.layers.Lambda(lambda values: keras.ops.log(values + 99))\n"
        "layer = keras.Sequential([first, Gate(4), keras.layers.Dense(1, activation=double)])",
        ["SCALE = 0.3", "Gate(units=4)", "activation=double", "lambda values: keras.ops.log"],
        [],
    ),
    "trained before": (
        "layer.compile('adam', 'mse'); layer.fit(np.stack([age, bmi], 1), y, verbose=0)",
        ["load_weights"],
        ["given.weights.h5 has the weights that it sets, or trains before this fit"],
    ),
    "a part, shuffled": (
        "told = np.random.default_rng(1).permutation(300)[:200]\n"
        "x = bmi[told][:, None]; y = y[told]",
        [],
        ["rows of the file that it leaves out: 100, such as row "],
    ),
    "an index": (
        "told = Frame(np.arange(300)[::-1], age=age); y = y[::-1]\n"
        "x = Frame(told.index, bmi=bmi[::-1], age=age[::-1])",
        ['28.0, inputs["bmi"]),\n        inputs["age"],'],
        [],
    ),
    "rows left out": (
        "told = [row for row in rows if row['bmi']]\n"
        "y = np.array([int(row['rings']) for row in told])\n"
        "x = np.array([[float(row['bmi'])] for row in told])",
        [],
        ["rows without bmi are left out (1), as the script does"],
    ),
    "records": ("told = rows[::-1]; x = bmi[::-1][:, None]; y = y[::-1]", ['(inputs["bmi"])'], []),
}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of h5py
@pytest.mark.parametrize("name", TAKEN)
def test_what_is_told_is_taken_over(start, name):
    changes, source, notes = TAKEN[name]
    workload, begun = start(changes)
    assert [text for text in source if text not in begun.workload] == [], begun.workload
    assert [text for text in notes if not any(text in note for note in begun.notes)] == []
    assert workload.build_model()


REFUSED = {
    "bins": (
        "x = np.stack([np.digitize(age, [25, 40, 55]), bmi], axis=1).astype('float32')",
        "train.py:2[56]: column 0 of x is no .* row 8 of the file, 1.0 in x; .*Discret",
    ),
    "more rows": (
        "x = np.concatenate([bmi, bmi])[:, None]; y = np.concatenate([y, y])",
        "train.py:2[56]: x has 600 rows, and rows 300 of the file: rows that are made, as by SMOTE",
    ),
    "other rows": ("told = np.arange(1, 301)", "rows has 300, and the file has the rows 0 to 299"),
    "rows twice": ("told = told // 2", "rows has 0 several times"),
    "no rows": ("told = None", "needs rows=…, the file's rows in the order of x"),
    "another label": ("label = 'ring'", "label='ring': did you mean 'rings'"),
    "a data set": (
        "import tensorflow as tf; x = tf.data.Dataset.range(3)",
        "give .* the arrays",
    ),
    "scaled label": ("y = (y - y.mean()) / 2", "y has not .*own numbers"),
    "monitor": (
        "stop = keras.callbacks.EarlyStopping('val_rmse')\n"
        "more = {'callbacks': [stop], 'validation_split': 0.2}",
        "EarlyStopping watches 'val_rmse', and fit has loss, learning_rate, val_loss: add it",
    ),
    "no validation": (
        "more = {'callbacks': [keras.callbacks.EarlyStopping('val_loss')]}",
        "watches 'val_loss', .*: give fit validation_split",
    ),
    "loss for two kinds": (
        "y, label, compiled['loss'] = np.array([int(r['weight']) for r in rows]), 'weight',"
        " lambda wanted, made: keras.ops.mean((wanted - made)**2)",
        "may be for two classes or for numbers: give --kind binary, or --kind regression",
    ),
    "own train step": (
        "class Net(keras.Sequential):\n    def train_step(self, data):\n        return {}\n"
        "layer = Net([keras.layers.Dense(1)])",
        "train.py:24: Net has its own train_step: write what it computes as a loss",
    ),
    "no decay": (
        "compiled['optimizer'] = keras.optimizers.AdamW()\n"
        "compiled['optimizer'].exclude_from_weight_decay(var_names=['bias'])",
        "exclude_from_weight_decay is not taken over",
    ),
    "smoothed label": (
        f"{LEFT}; y = y * 0.9 + 0.05; {LOGITS}",
        "y has 0.05 and 0.95 for the two values of left: .* label_smoothing",
    ),
    "before fit": ("open('absent.csv')", "train.py:23: FileNotFoundError: .*absent.csv"),
    "exit": ("sys.exit(3)", r"it ended before trainyard.fit \(3\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_taken_over_is_named_with_its_line(start, name):
    changes, message = REFUSED[name]
    with pytest.raises(DataError, match=message):
        start(changes)


FOLDS = "    layer = keras.models.clone_model(layer)\n    layer.compile('adam', 'mse')"
LOOPS = {
    "calls": (f"for at in range(8):\n    {FIT}\n    layer.save('m.keras')\nlayer.save()", 40),
    "folds": (f"for fold in range(3):\n    {FIT}\n{FOLDS}", 5),
    "sizes": (f"for size in (8, 16):\n    more['batch_size'] = size\n    {FIT}", 0),
    "rates": (f"for rate in (0.1, 0.01):\n    layer.optimizer.learning_rate = rate\n    {FIT}", 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_each_call_in_a_loop_adds_its_epochs(start, tmp_path, name):
    line, epochs = LOOPS[name]
    if not epochs:
        with pytest.raises(DataError, match=r"train\.py:28: the calls of fit in a loop differ in"):
            start("", line)
        return
    _, begun = start("", line)
    assert begun.train["epochs"] == epochs
    told = "several models: the first" if name == "folds" else "epochs is 40 in all"
    assert any(told in note for note in begun.notes)
    assert not (tmp_path / "m.keras").exists()


def test_the_fit_to_change_is_shown(start):
    text = SCRIPT.replace("import trainyard", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "SCRIPT", text)
        told = (
            r"layer.fit\(x, y, epochs=3\) to trainyard.fit\(layer, x, y, rows=…, label=\"left\", e"
        )
        with pytest.raises(DataError, match=rf"train.py:27: change {told}"):
            start("", "scaler.fit(x)\nlayer.fit(x, y, epochs=3)", label="left")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "classes"}, "its loss is for regression: omit --kind classes"),
        ({"label": "left"}, "trainyard.fit has label='rings': omit --label left"),
        ({"positive": "3"}, "--positive 3: train.py trains with none; omit it"),
    ],
)
def test_options_that_contradict_the_script_are_refused(start, options, message):
    with pytest.raises(DataError, match=message):
        start("", **options)


def test_a_notebook_is_refused_with_the_command_that_makes_a_script_of_it(tmp_path):
    (tmp_path / "train.ipynb").write_text("{}")
    (tmp_path / "data.csv").write_text("a,b\n" + "1,2\n3,4\n" * 20)
    with pytest.raises(DataError, match=r"notebook.*nbconvert --to script train\.ipynb"):
        start_table([str(tmp_path / "data.csv")], "b", script=tmp_path / "train.ipynb")


IMAGES = """\
import keras; import trainyard
data = keras.utils.image_dataset_from_directory(
    "photos", image_size=(24, 20), batch_size=4, label_mode="binary"
)
data = data.map(lambda images, labels: (images / 255.0, labels))
layers = [keras.layers.RandomFlip(), keras.layers.Flatten(), keras.layers.Dense(1, "sigmoid")]
model = keras.Sequential(layers)
model.compile("adam", "binary_crossentropy")
trainyard.fit(model, data, images="photos", epochs=3, class_weight={0: 1.0, 1: 2.0})
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", ""),
        (", data,", ", data.take(2),", "x has 8 images .*, and the folder 24: give fit all"),
        ('"binary"\n', '"binary", class_names=["dogs", "cats"]\n', "class_names=… may number"),
        ('images="photos"', 'images="."', "needs images="),
    ],
)
def test_a_script_that_trains_on_all_images_of_a_folder(tmp_path, monkeypatch, old, new, message):
    monkeypatch.chdir(tmp_path)
    save_images(tmp_path / "photos", [(40 + at, 30) for at in range(12)])
    (tmp_path / "train.py").write_text(IMAGES.replace(old, new, 1))
    if message:
        with pytest.raises(DataError, match=message):
            start_images(str(tmp_path / "photos"), script=tmp_path / "train.py")
        return
    begun = start_images(str(tmp_path / "photos"), script=tmp_path / "train.py")
    write_folder(tmp_path / "own", begun)
    workload = load_workload(str(tmp_path / "own"))
    assert (workload.size, workload.channels, workload.raw_inputs) == ((24, 20), 3, True)
    assert workload.label == Binary("label", positive="dogs", names=("cats", "dogs"))
    assert workload.class_weights == {"cats": 1, "dogs": 2}
    _, scaled, model = workload.build_model().layers
    layers = [type(layer).__name__ for layer in (scaled, *model.layers)]
    assert layers == ["Rescaling", "RandomFlip", "Flatten", "Dense"]
    assert begun.train == {"epochs": 3, "batch_size": 4}


def test_the_fit_of_images_to_change_is_shown(tmp_path):
    save_images(tmp_path / "photos", [(9, 9)] * 12)
    text = IMAGES.replace("; import trainyard", "").replace('images="photos", ', "")
    (tmp_path / "train.py").write_text(text.replace("trainyard.fit(model, ", "model.fit("))
    with pytest.raises(
        DataError, match=r'to trainyard.fit\(model, data, images=".*photos", epochs'
    ):
        start_images(str(tmp_path / "photos"), script=tmp_path / "train.py")


def test_a_process_of_its_own_runs_the_script(start, monkeypatch):
    monkeypatch.setattr(record, "running", running)
    changes = "x, label, y = bmi[:, None], 'plan', np.unique(plans, return_inverse=True)[1]\n"
    changes += "layer = keras.Sequential([keras.layers.Dense(3)])\n"
    workload, _ = start(f"{changes}compiled['loss'] = 'sparse_categorical_crossentropy'")
    assert workload.label == Classes("plan", values=("basic", "plus", "pro"))


def test_a_script_that_does_not_reach_its_fit_is_ended(start, monkeypatch):
    monkeypatch.setattr(record, "running", running)
    monkeypatch.setattr(record, "TIMEOUT_SECONDS", 1)
    with pytest.raises(
        DataError, match=r"train.py.*: still running after 1 s, before trainyard.fit"
    ):
        start("import time; time.sleep(300)")


def test_fit_by_itself_is_the_fit_of_the_model():
    class Model:
        def fit(self, *arguments, **named):
            return arguments, named

    made = trainyard.fit(Model(), [1], [2], rows=[0], label="b", epochs=3)
    assert made == (([1], [2]), {"epochs": 3})
