"""The steps of `trainyard check`: what works, and each mistake with its line."""

import gzip
import tempfile
from pathlib import Path

import pytest

from components.prepare_examples.errors import DataError
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from pipelines.projects.trial import data as trial_data
from pipelines.projects.trial.findings import Finding
from tests.support.data.class_folders import save_images
from tests.support.data.trials import try_data, try_folder
from trainer import Json

pytestmark = pytest.mark.timeout(180)

NAMES = ["declaration", "data", "model", "training", "predictions"]
TABLE = """\
from trainer.workloads import *

def model(inputs, *, units: int = 4):
    import keras
    output = keras.layers.Dense(OUTPUTS)(combine(inputs))
    own = keras.Model(inputs, output)
    own.compile("sgd", loss=LOSS)
    return own

workload = Table(
    [
        Number("age now", low=0),
        Category("PLAN"),
        Timestamp("since", format="FORMAT"),
    ],
    label=Binary("left", positive="POSITIVE"),
    model=model,
)
"""
RIGHT = {
    "OUTPUTS": "1",
    "LOSS": "keras.losses.BinaryCrossentropy(from_logits=True)",
    "PLAN": "plan",
    "FORMAT": "%d.%m.%Y",
    "POSITIVE": "yes",
}


@pytest.fixture
def attempt(tmp_path):
    """Try a workload's text with data; return the findings by name."""
    folder = tmp_path / "own"
    folder.mkdir()

    def run(text: str, data: Path, **train: object) -> dict[str, Finding]:
        (folder / "workload.py").write_text(text)
        found = try_folder(folder, data, **train)
        assert [name for name in found if name not in ("thresholds", "slices")] == NAMES
        return found

    return run


@pytest.fixture
def tried(tmp_path):
    """Try the declaration and the data of a workload's text with a file; return the finding."""

    def run(
        text: str, data: Path | None, *, gate: Json | None = None, **options: object
    ) -> Finding:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (folder / "trial").mkdir()
        (folder / "workload.py").write_text(text)
        chosen = PrepareOptions(files=(str(data),) if data else (), **options)
        return try_data(folder, chosen, folder / "trial", gate=gate)

    return run


@pytest.fixture
def rows(tmp_path):
    """A file of 60 rows."""
    lines = [
        f"{21 + at},{'ab'[at % 2]},{1 + at % 28:02}.01.2024,{['no', 'yes'][at % 3 == 0]}"
        for at in range(60)
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["age now,plan,since,left", *lines]) + "\n")
    return path


def table(**changes: str) -> str:
    text = TABLE
    for name, value in (RIGHT | changes).items():
        text = text.replace(name, value)
    return text


def test_a_right_workload_is_tried_from_its_data_to_its_predictions(attempt, rows):
    loss = f"{RIGHT['LOSS']}, metrics=[keras.metrics.Recall(name='recall')]"
    thresholds = {"recall": {"at_least": 0.5}, "specificity": {"at_least": 0.5}}
    slices = [
        "plan",
        "plam = a",
        "missing(plan) & since",
        "plan > 5",
        "buckets(plan; 2)",
    ]
    given = {"epochs": 3, "batch_size": 512, "thresholds": thresholds, "gate": {"slices": slices}}
    logger = "keras.callbacks.CSVLogger('epochs-of-check.csv')"
    text = table(LOSS=loss).replace("model=model,", f"model=model, callbacks=[{logger}],")
    found = attempt(f"import keras\n{text}", rows, **given)
    [problem] = found.pop("thresholds").problems
    assert problem.startswith("thresholds.specificity: the model has no such metric")
    assert problem.endswith("auc, recall, pr_auc, precision, brier, calibration_error, f1")
    assert found.pop("slices").problems == [
        "gate.slices has 'plam = a', but own has no feature 'plam'; did you mean 'plan'? it has"
        " age now, plan, since",
        "gate.slices has 'plan > 5', but plan is a text, which has only = and !=",
        "gate.slices has 'buckets(plan; 2)', but plan is a text, which has no buckets",
    ]
    assert not [problem for one in found.values() for problem in one.problems]
    assert {one.state for one in found.values()} == {"ok"}
    assert found["data"].detail.startswith("all 60 rows")
    assert "5 folds of all 60 rows judge the model" in found["data"].detail
    assert found["predictions"].detail == "8 requests answered as the examples"
    assert not Path("epochs-of-check.csv").exists(), "it was written where the check was started"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"OUTPUTS": "3"}, {"model": [":3: ", "Dense(1)"]}),
        (
            {"POSITIVE": "ja", "OUTPUTS": "units.nothing"},
            {"data": [":16: left is 0", "'yes' (20 rows)"], "model": [":5: AttributeError"]},
        ),
        ({"LOSS": "'nonsense'"}, {"model": [":7: ", "nonsense"]}),
        (
            {"OUTPUTS": "2", "LOSS": "keras.losses.BinaryCrossentropy()"},
            {"model": [":7: ", "Dense, is linear", "from_logits=True"]},
        ),
    ],
    ids=["output", "one label and model", "loss", "linear"],
)
def test_mistakes_of_a_model_are_named_with_their_lines(attempt, rows, changes, expected):
    found = attempt(table(**changes), rows)
    assert {name for name, one in found.items() if one.state == "wrong"} == set(expected)
    for name, texts in expected.items():
        assert all(text in " ".join(found[name].problems) for text in texts), found[name].problems
    if "data" in expected:
        assert found["training"].state == "not tried", "it needs data"


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"PLAN": "plam"}, ["workload.py:13: the column 'plam'", "'plan'"]),
        ({"FORMAT": "%Y-%m-%d"}, [":14: since: 60 of 60 rows", "%Y-%m-%d"]),
        ({"age now": "income"}, [":12: the column 'income'", "not declared: 'age now'"]),
    ],
    ids=["column", "date", "columns"],
)
def test_mistakes_of_a_table_are_named_with_their_lines(tried, rows, changes, texts):
    problems = " ".join(tried(table(**changes), rows).problems)
    assert all(text in problems for text in texts), problems


@pytest.mark.parametrize(
    ("gate", "state"),
    [({"folds": 0}, "wrong"), ({"folds": 0, "metric": "accuracy"}, "ok"), ({}, "ok")],
    ids=["auc", "accuracy", "folds"],
)
def test_a_class_that_the_test_split_lacks_is_named(tried, rows, gate, state):
    lines = rows.read_text().replace(",yes", ",no").splitlines()
    for at in (1, 2, 5):  # in the train and the eval split
        lines[at] = lines[at].replace(",no", ",yes")
    rows.write_text("\n".join(lines) + "\n")
    found = tried(table(), rows, gate=gate)
    assert found.state == state
    if state == "ok":
        assert "the test split has no 'yes'" in found.detail
    else:
        [problem] = found.problems
        assert "the test split has no example of the class 'yes' of 'left', so auc" in problem


def test_a_label_by_a_rule_is_prepared_and_a_mistake_in_the_rule_has_its_line(tried, rows):
    rule = "def is_old(columns):\n    return columns['age now'] > 50\n\nworkload = Table("
    by_rule = 'Binary("old", rule=is_old, rule_columns=("age now",)), ignored=["left"]'
    text = table().replace("workload = Table(", rule)
    text = text.replace('Binary("left", positive="yes")', by_rule)
    assert tried(text, rows).state == "ok"
    [problem] = tried(text.replace("['age now'] > 50", "['age'] > 50"), rows).problems
    assert "workload.py:11: KeyError: 'age'" in problem


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"dates": ["2030-01-01", "2030-01-31"]}, "0 of 60 rows have a since from 2030-01-01"),
        ({"max_examples": 2}, "split would be empty"),
        ({"split_key": ["age now"]}, "split_key is 'age now'; allowed are"),
    ],
    ids=["dates", "first rows", "split key"],
)
def test_the_check_refuses_what_a_run_refuses(tmp_path, rows, options, problem):
    (tmp_path / "workload.py").write_text(table()[:-2] + '    key="id",\n)\n')
    head, *lines = rows.read_text().splitlines()
    numbered = [f"{line},{number // 2}" for number, line in enumerate(lines)]
    rows.write_bytes(gzip.compress("\n".join([f"{head},id", *numbered, ""]).encode()))
    chosen = PrepareOptions(files=(str(rows),), num_shards={"train": 1}, **options)
    with pytest.raises(DataError, match=problem):
        prepare(str(tmp_path), output_dir=tmp_path / "out", options=chosen)
    (tmp_path / "trial").mkdir()
    data = try_data(tmp_path, chosen, tmp_path / "trial")
    assert problem in data.problems[0]


def test_a_setting_that_the_model_lacks_is_named(attempt, rows):
    found = attempt(table(), rows, **{"model.unit": 3})
    assert found["declaration"].problems[0].startswith("--model.unit: ")
    assert found["data"].state == "not tried"


IMAGES = """\
from trainer.workloads import *

def model(inputs):
    import keras
    pixels = keras.layers.Rescaling(1 / 255)(inputs)
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(pixels)))

workload = ImageFolder(size=(8, 8), model=model, raw_inputs=True)
"""


def test_bad_images_are_named_and_the_others_tried(attempt, tried, tmp_path):
    photos = tmp_path / "photos"
    save_images(photos, [(8, 9 + at % 9) for at in range(20)])
    given = {"gate": {"metric": "accuracy"}}
    assert {one.state for one in attempt(IMAGES, photos, **given).values()} == {"ok"}
    (photos / "cats" / "3.png").write_bytes(b"no image")
    (photos / "dogs" / "4.png").write_bytes((photos / "dogs" / "4.png").read_bytes()[:40])
    found = attempt(IMAGES.replace("True", "False"), photos, prepare={"max_quarantine": 0}, **given)
    [problem] = found["data"].problems
    assert "2 of 40 images are bad" in problem
    assert "cats/3.png the file is not an image" in problem
    [problem] = found["model"].problems
    assert ":3: the layer rescaling" in problem
    assert "gets pixels from 0 to 1: remove it, or let the workload have raw_inputs=True" in problem
    (photos / "birds").mkdir()
    problem = tried(IMAGES, photos).problems[0]
    assert f"the class folder {photos}/birds has no images" in problem


RECORDS = """\
from trainer.workloads import *

def model(inputs):
    import keras
    return keras.Model(inputs, keras.layers.Dense(3)(inputs["x"]))

workload = Records(
    {"x/raw": Values("float32", [4])},
    label=Classes("y", values=(0, 1, 2)),
    model=model,
    encode_with=lambda features: {"x": features["x/raw"]},
)
"""


@pytest.fixture
def records(tmp_path):
    """A file of 30 records."""
    import tensorflow as tf

    path = tmp_path / "some.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for at in range(30):
            feature = {
                "x/raw": tf.train.Feature(float_list=tf.train.FloatList(value=[at, 1, 2, 3])),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[at % 3])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return path


def test_records_are_tried_and_their_mistakes_named(attempt, records):
    found = attempt(RECORDS, records)
    assert not [problem for one in found.values() for problem in one.problems]
    assert {one.state for one in found.values()} == {"ok"}
    found = attempt(RECORDS.replace("[4]", "[5]"), records)
    assert ":8: x/raw: 30 of 30 records are bad" in found["data"].problems[0]
    found = attempt(RECORDS.replace('"x/raw": V', '"z": V'), records)
    assert ":8: z: 30 of 30 records are bad" in found["data"].problems[0]


def test_features_that_tell_the_label_alone_or_encode_it_are_said(tried, tmp_path):
    lines = ["hour,closed_on,code,is_a,is_b,is_c"]
    for at in range(300):
        is_a, is_b, is_c = (at * 7 % 11 % 3 == one for one in range(3))
        day = "" if is_a else f"2025-0{1 + at % 9}-10"
        lines.append(f"{at % 24},{day},{at % 22}{'AB'[is_a]},{int(is_a)},{int(is_b)},{is_c}")
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([*lines, ""]))
    finding = tried(
        "from trainyard import Binary, Category, Number, Table, Timestamp\n"
        "features = [Number('hour'), Timestamp('closed_on', parts=('month',)), Category('code'),"
        " Number('is_b'), Category('is_c')]\n"
        "workload = Table(features, label=Binary('is_a', positive=1))\n",
        path,
    )
    told = "closed_on tells is_a by the rows that miss it, code tells is_a alone"
    assert told in finding.detail
    assert "is_b tells is_a together with is_c" in finding.detail
    assert "hour" not in finding.detail


@pytest.fixture
def some(monkeypatch):
    """Few rows that are prepared first."""
    monkeypatch.setattr(trial_data, "MOST_ROWS", 100)
    monkeypatch.setattr(trial_data, "MOST_VALUES", 100)


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize(
    ("bad", "late", "problem"),
    [
        (range(40), range(0, 1_000, 3), None),
        (range(60), range(0, 1_000, 3), "age: 60 of 1,000 rows are bad"),
        ((), range(800, 1_000), None),
        ((), (), "left is 0 in all"),
    ],
    ids=["few bad rows side by side", "many", "a class in the last rows", "one class"],
)
def test_all_rows_decide_if_some_would_be_refused(tried, tmp_path, bad, late, problem):
    text = "from trainyard import Binary, Number, Table\n"
    text += "workload = Table([Number('age')], label=Binary('left', positive='yes'))\n"
    ages = ["x" if at in bad else at % 70 for at in range(1_000)]
    rows = [f"{age},{'yes' if at in late else 'no'}" for at, age in enumerate(ages)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["age,left", *rows, ""]))
    data = tried(text, path)
    assert data.state == ("wrong" if problem else "ok"), data.problems
    assert not problem or problem in data.problems[0]
