"""Batch prediction of every kind of file, with a small model that nobody has trained."""

import base64
import csv
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from components.prepare_examples.errors import DataError
from pipelines.predictions.__main__ import main
from pipelines.predictions.inputs import records
from pipelines.predictions.inputs.batch import Batch
from pipelines.predictions.options import PredictOptions
from pipelines.predictions.output import PredictionFiles
from pipelines.predictions.predict import load_model, predict_files
from tests.support.data.encoded_tables import adapted, make_example
from tests.support.data.picture_tables import write_pictures, write_rows
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import (
    Category,
    Classes,
    Image,
    ImageFolder,
    Number,
    Regression,
    Table,
    Text,
    TimePart,
    Timestamp,
)

import_tensorflow()

import tensorflow as tf  # noqa: E402

from trainer.serving.export import export_model  # noqa: E402

pytestmark = pytest.mark.timeout(120)

NUM_ROWS = 60
WORKLOAD = Table(
    [
        Number("charge", low=0, high=500),
        Number("vector", length=2),
        Category("plan", min_count=1),
        Category("tags", separator="|", min_count=1, max_length=2),
        Text("review", min_count=1, max_length=3),
        Timestamp("signed_up", format="%d.%m.%Y", is_used=False),
        TimePart("day", of="signed_up", part="day", low=1, high=31),
    ],
    label=Classes("kind", values=("a", "b", "c")),
    key="customer",
    aliases={"Monthly": "charge", "type": "plan"},
    missing=("n/a",),
    name="churn",
)


def instance(number: int) -> dict:
    """Return row `number` as an instance; some features are missing."""
    found = {
        "charge": number + 0.25,
        "vector": [float(number), -0.5],
        "plan": ["basic", "größer"][number % 2],
        "tags": ["x", "y"][: number % 3],
        "review": f"good {number % 4}",
        "day": 1 + number % 28,
    }
    if number % 5 == 0:
        del found["plan"], found["charge"]
    return found


def csv_row(number: int) -> dict:
    """Return the same row as a file has it, under other names of columns."""
    one = instance(number)
    return {
        "customer": f"c{number}",
        "Monthly": one.get("charge", "n/a"),
        "vector": json.dumps(one["vector"]),
        "type": one.get("plan", ""),
        "tags": "|".join(one["tags"]),
        "review": one["review"],
        "signed_up": f"{one['day']:02d}.02.2020",
        "kind": "never seen",
        "remark": "not used",
    }


def under_own_names(number: int) -> dict:
    """Return an instance under the names of the files' columns."""
    names = {"charge": "Monthly", "plan": "type", "review": "Review"}
    return {names.get(name, name): value for name, value in instance(number).items()}


def write_csv(path: Path, rows: list[dict]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_lines(path: Path, lines: list) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts))
    return path


def write_records(path: Path, records: list[bytes]) -> Path:
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for record in records:
            writer.write(record)
    return path


def example(number: int) -> bytes:
    return make_example({**instance(number), "key": f"c{number}"})


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """Export an untrained model of the table."""
    rows = [{**instance(number), "kind": "abc"[number % 3]} for number in range(NUM_ROWS)]
    workload, _ = adapted(WORKLOAD, rows)
    folder = tmp_path_factory.mktemp("churn") / "model"
    export_model(workload.build_model(), workload, str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def expected(model) -> list[dict]:
    """Return what the prediction server answers to each row."""
    return load_model(model).predict([instance(number) for number in range(NUM_ROWS)])


def written(folder: Path, kind: str) -> list[dict]:
    """Return the predictions or errors in a folder."""
    lines = [path.read_text().splitlines() for path in sorted(folder.glob(f"{kind}-*.jsonl"))]
    return [json.loads(line) for of_file in lines for line in of_file]


def request(model: str, path: Path, out: Path) -> str:
    """Return the argument of the process that predicts files."""
    fields = {"model": model, "inputs": [str(path)], "output_dir": str(out)}
    return json.dumps({**fields, "options": {}, "trust": []})


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def predict(model, out):
    """Predict files; return the summary, the predictions and the errors."""

    def do(*files: Path, of: Path | str = model, max_errors: float = 0.5, **options):
        summary = predict_files(
            str(of),
            inputs=[*map(str, files)],
            output_dir=out,
            options=PredictOptions(max_errors=max_errors, **options),
        )
        return summary, written(out, "predictions"), written(out, "errors")

    return do


def write_table(path: Path) -> Path:
    rows = every_row(csv_row)
    parquet.write_table(
        pa.Table.from_pylist([{**row, "Monthly": str(row["Monthly"])} for row in rows]), path
    )
    return path


def zipped(path: Path) -> Path:
    path.write_bytes(gzip.compress(path.read_bytes()))
    return path


def recoded(path: Path, encoding: str) -> Path:
    path.write_text(path.read_text(encoding="utf-8"), encoding=encoding)
    return path


def every_row(of) -> list:
    return [of(number) for number in range(NUM_ROWS)]


def keyed(of):
    return lambda number: {**of(number), "key": f"c{number}"}


TABLES = {
    "rows.csv": lambda path: write_csv(path, every_row(csv_row)),
    "rows.parquet": write_table,
    "utf-16.csv": lambda path: recoded(write_csv(path, every_row(csv_row)), "utf-16"),
    "table.jsonl": lambda path: write_lines(path, every_row(csv_row)),
    "array.json": lambda path: write_lines(path, [every_row(csv_row)]),
}
INSTANCES = {
    "rows.jsonl": lambda path: write_lines(path, every_row(keyed(instance))),
    "own_names.jsonl": lambda path: write_lines(path, every_row(keyed(under_own_names))),
    "rows.tfrecord.gz": lambda path: write_records(path, every_row(example)),
    "part-00000-of-00001": lambda path: zipped(write_records(path, every_row(example))),
}


@pytest.mark.parametrize(
    ("writers", "unused"), [(TABLES, ["kind", "remark"]), (INSTANCES, [])], ids=["tables", "rows"]
)
def test_every_kind_of_file_gets_the_servers_predictions(
    predict, expected, tmp_path, out, *, writers, unused
):
    files = [write(tmp_path / name) for name, write in writers.items()]

    summary, predictions, _ = predict(*files, max_errors=0)

    for file in files:
        found = [one for one in predictions if one["file"] == str(file)]
        assert [one["row"] for one in found] == list(range(1, NUM_ROWS + 1)), file
        assert [one["key"] for one in found] == [f"c{number}" for number in range(NUM_ROWS)]
        assert [one["prediction"]["label"] for one in found] == [one["label"] for one in expected]
        np.testing.assert_allclose(likely(found), [one["probabilities"] for one in expected], 1e-4)
    count = len(files)
    assert (summary["files"], summary["errors"]) == (count, 0)
    assert summary["predictions"] == len(predictions) == count * NUM_ROWS
    assert json.loads((out / "summary.json").read_text()) == summary
    assert summary["unused_columns"] == unused


def likely(found: list[dict]) -> list[list[float]]:
    return [one["prediction"]["probabilities"] for one in found]


def test_lines_without_label_and_with_the_key_are_rows_of_a_table(predict, tmp_path):
    rows = [csv_row(number) for number in range(3)]
    new = [{name: row[name] for name in row if name not in ("kind", "remark")} for row in rows]
    summary, *_ = predict(write_lines(tmp_path / "new.jsonl", new))
    assert (summary["predictions"], summary["unused_columns"]) == (3, [])


def test_lines_without_a_prediction_have_no_unknown_values(predict, tmp_path):
    with pytest.raises(DataError, match="2 of 2 rows"):
        predict(write_lines(tmp_path / "rows.jsonl", ["{broken", "[1]"]))


def test_values_that_the_model_has_not_learnt_are_said(model, tmp_path, out, capsys):
    plans, tags = ["gold", "basic", "gold", ""], [["x"], ["z"], ["x"], []]
    rows = [{**instance(1), "plan": p, "tags": t} for p, t in zip(plans, tags, strict=True)]
    cells = [{"type": row["plan"], "tags": "|".join(row["tags"])} for row in rows]
    write_csv(tmp_path / "rows.csv", [{**csv_row(1), **cell} for cell in cells])
    write_lines(tmp_path / "rows.jsonl", rows)
    assert main(request(model, tmp_path / "rows.*", out)) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["unknown_values"] == {
        "plan": {"values": 4, "example": "gold"},
        "tags": {"values": 2, "example": "z"},
    }
    said = "values that the model does not know: plan (4, such as 'gold'), tags (2, such as 'z')"
    assert said in capsys.readouterr().out


def sequence(number: int) -> tf.train.SequenceExample:
    """Return a row as the context of a tf.train.SequenceExample."""
    context = tf.train.Example.FromString(example(number)).features
    found = tf.train.SequenceExample(context=context)
    found.feature_lists.feature_list["frames"].feature.add().float_list.value.append(1.0)
    return found


# By file: its writer, the row of `instance` at each row, and the reasons of the other rows.
BAD = {
    "rows.csv": (
        lambda path: write_csv(
            path,
            [
                csv_row(1),
                {**csv_row(2), "Monthly": "many"},
                {**csv_row(3), "Monthly": "501"},
                csv_row(4),
            ],
        ),
        {1: 1, 4: 4},
        {2: "'many' is not a number", 3: "501 is impossible"},
    ),
    "rows.jsonl": (
        lambda path: write_lines(
            path, [instance(1), "{broken", {**instance(2), "day": 0}, "", instance(4)]
        ),
        {1: 1, 5: 4},
        {2: "Expecting property name", 3: "day is 0"},
    ),
    "fields.jsonl": (
        lambda path: write_lines(path, [{**instance(1), "chargee": 2}, instance(2)]),
        {2: 2},
        {1: "unknown field 'chargee'"},
    ),
    "rows.tfrecord": (
        lambda path: write_records(
            path,
            [
                example(1),
                b"\n\xff",
                make_example({"charge": "text"}),
                example(4),
                sequence(2).SerializeToString(),
                example(3),
                make_example({**instance(1), "vector": [1.0, 2.0, 3.0]}),
            ],
        ),
        {1: 1, 4: 4, 6: 3},
        {
            **dict.fromkeys((2, 3), "is no example of churn"),
            5: "is a tf.train.SequenceExample",
            7: "Key: vector, Index: 0.  Number of float values != expected",
        },
    ),
}


def test_a_row_without_a_prediction_is_written_apart(predict, expected, tmp_path, out):
    files = {name: write(tmp_path / name) for name, (write, _, _) in BAD.items()}

    summary, predictions, errors = predict(*files.values(), max_errors=0.6)

    assert (summary["rows"], summary["predictions"], summary["errors"]) == (17, 8, 9)
    for name, (_, good, reasons) in BAD.items():
        found = [one for one in predictions if one["file"] == str(files[name])]
        assert [one["row"] for one in found] == [*good]
        same = [expected[number]["probabilities"] for number in good.values()]
        np.testing.assert_allclose(likely(found), same, atol=1e-5)
        wrong = {one["row"]: one["reason"] for one in errors if one["file"] == str(files[name])}
        assert [*wrong] == [*reasons]
        for row, reason in reasons.items():
            assert reason in wrong[row]
    shutil.rmtree(out)
    with pytest.raises(DataError, match=r"2 of 4 rows \(50.0%\) have no prediction.*row 2"):
        predict(files["rows.csv"], max_errors=0)
    assert not out.exists()


def test_many_files_become_shards_of_parquet(predict, expected, tmp_path, out):
    for at in range(3):
        rows = [csv_row(number) for number in range(20 * at, 20 * at + 20)]
        write_csv(tmp_path / f"part-{at}.csv", rows)
    lines = zipped(write_lines(tmp_path / "zipped.jsonl.gz", [instance(1)]))

    summary, *_ = predict(tmp_path / "part-*.csv", lines, format="parquet")

    assert [shard["file"] for shard in summary["shards"]] == [
        "predictions-00000-of-00002.parquet",
        "predictions-00001-of-00002.parquet",
    ]
    tables = [parquet.read_table(out / shard["file"]) for shard in summary["shards"]]
    rows = tables[0].to_pylist()
    assert [(Path(one["file"]).name, one["row"]) for one in rows] == [
        (f"part-{at}.csv", row + 1) for at in range(3) for row in range(20)
    ]
    assert [one["prediction"]["label"] for one in rows] == [one["label"] for one in expected]
    assert tables[1].column("key").to_pylist() == [None]


def test_a_part_without_predictions_is_a_parquet_file_of_the_same_schema(predict, tmp_path, out):
    good = write_lines(tmp_path / "good.jsonl", [instance(1)])
    bad = write_csv(tmp_path / "bad.csv", [{**csv_row(1), "Monthly": "many"}])

    predict(good, bad, format="parquet")

    tables = [parquet.read_table(path) for path in sorted(out.glob("*.parquet"))]
    assert sorted(len(table) for table in tables) == [0, 1]
    assert tables[0].schema == tables[1].schema
    [prediction] = [one for table in tables for one in table.column("prediction").to_pylist()]
    assert prediction["label"] in "abc"


def one_row(number: int) -> Batch:
    return Batch(path="rows.jsonl", rows=[number], keys=[None])


def test_predictions_without_labels_have_the_schema_of_the_others(tmp_path):
    specs = {
        "labels": tf.TensorSpec([None, 2], tf.string),
        "probabilities": tf.TensorSpec([None, 2], tf.float32),
        "class": tf.TensorSpec([None], tf.int64),
    }
    none = {"labels": [], "probabilities": [0.1, 0.2], "class": 0}
    some = {"labels": ["a"], "probabilities": [0.9, 0.2], "class": 1}

    with PredictionFiles(tmp_path, number=0, num_parts=1, kind="parquet", specs=specs) as files:
        files.write(one_row(1), [none])
        files.write(one_row(2), [some])

    table = parquet.read_table(tmp_path / "predictions-00000-of-00001.parquet")
    assert table.column("prediction").to_pylist() == [none, some]


def test_predictions_of_a_hook_that_change_their_type_are_an_error_with_words(tmp_path):
    with PredictionFiles(tmp_path, number=0, num_parts=1, kind="parquet") as files:
        files.write(one_row(1), [{"price": 3}])
        with pytest.raises(DataError, match=r"rows 2 to 2 do not fit Parquet's columns .* jsonl"):
            files.write(one_row(2), [{"price": "unknown"}])


def test_only_an_earlier_prediction_is_replaced(predict, tmp_path, out):
    file = write_lines(tmp_path / "rows.jsonl", [instance(1)])
    predict(file)
    write_lines(file, [instance(1), instance(2)])
    summary, predictions, _ = predict(file)
    assert summary["predictions"] == len(predictions) == 2

    (out / "notes.txt").touch()
    with pytest.raises(DataError, match=r"contains 'notes.txt', which is not part of a batch"):
        predict(file)
    assert written(out, "predictions") == predictions
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_wrong_input_is_named(model, tmp_path, out, capsys):
    short = write_csv(tmp_path / "short.csv", [{"customer": "c", "charges": 1}])
    other = write_lines(tmp_path / "rows.xml", ["<?xml version='1.0'?>"])
    frames = write_records(tmp_path / "frames", [sequence(1).SerializeToString()])
    damaged = write_records(tmp_path / "rows.tfrecord", [example(1)])
    damaged.write_bytes(damaged.read_bytes()[:-3])
    messages = {
        short: "short.csv: the column 'charge' is missing, which the model needs; did you mean",
        other: "rows.xml is a web page or XML",
        frames: "frames: the first record is a tf.train.SequenceExample",
        damaged: "rows.tfrecord is damaged after record 0",
        tmp_path / "no.csv": "no.csv matches no file",
    }
    for path, message in messages.items():
        assert main(request(model, path, out)) == 2
        assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_damaged_file_is_named_with_the_last_record_that_was_read(model, tmp_path, monkeypatch):
    """Also after a record that cannot be parsed, from which on each batch is read with care."""
    monkeypatch.setattr(records, "BATCH_ROWS", 2)
    bad = make_example({"charge": "text"})
    file = write_records(tmp_path / "rows.tfrecord", [example(1), bad, *map(example, range(3))])
    file.write_bytes(file.read_bytes()[:-3])

    with pytest.raises(DataError, match="is damaged after record 4 "):
        list(records.read_records({"path": str(file)}, load_model(model)))


def test_a_prediction_that_is_not_finite_is_an_error_of_its_row(predict, tmp_path):
    table = Table([Number("x")], label=Regression("y"), name="t")
    table, _ = adapted(table, [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}])
    encoded = table.preprocess(table.encode({"x": tf.constant([1.0])}))
    inputs = {name: tf.keras.Input(one.shape[1:], name=name) for name, one in encoded.items()}
    folder = tmp_path / "model"
    export_model(tf.keras.Model(inputs, inputs["amounts"][:, :1] ** 99), table, str(folder))
    rows = [{"x": 0.5}, {"x": 1e9}, {"x": 0.25}]
    files = write_csv(tmp_path / "rows.csv", rows), write_lines(tmp_path / "rows.jsonl", rows)

    _, predictions, errors = predict(*files, of=folder)

    assert [one["row"] for one in predictions] == [1, 3] * 2
    reason = "its prediction is not finite: 'value' is inf"
    assert [(one["row"], one["reason"]) for one in errors] == [(2, reason)] * 2


def test_a_model_of_another_program_takes_json_lines_of_its_instances(predict, tmp_path):
    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def __call__(self, x):
            return {"twice": 2 * x}

    module, folder = Doubled(), tmp_path / "model"
    tf.saved_model.save(module, str(folder), signatures=module.__call__)
    file = write_lines(tmp_path / "rows.jsonl", [[1, 2], [1, 2, 3], [3, 4]])

    _, predictions, [error] = predict(file, of=folder)

    assert [(one["row"], one["prediction"]) for one in predictions] == [
        (1, [2.0, 4.0]),
        (3, [6.0, 8.0]),
    ]
    assert error["row"] == 2
    assert "shape (3,)" in error["reason"]
    with pytest.raises(DataError, match="only JSON lines of its instances"):
        predict(write_csv(tmp_path / "rows.csv", [{"x": 1}]), of=folder)


def test_a_model_of_images_takes_a_folder_of_pictures(predict, tmp_path):
    photos, folder = tmp_path / "photos", tmp_path / "model"
    write_pictures(photos, 3, suffix=".png")
    workload = ImageFolder(size=(4, 4), label=Classes("kind", values=("cat", "dog")), name="pets")
    workload = workload.adapt({"image": np.zeros((2, 4, 4, 3), np.uint8)})
    export_model(workload.build_model(), workload, str(folder))
    (photos / "p001.png").write_bytes(b"no picture")
    (photos / "remarks.txt").write_text("by me")
    (photos / "Thumbs.db").write_bytes(b"\xd0\xcf")

    _, predictions, errors = predict(photos, of=folder)

    assert [one["key"] for one in predictions] == ["p000.png", "p002.png"]
    assert [Path(error["file"]).name for error in errors] == ["p001.png", "remarks.txt"]
    with pytest.raises(DataError, match=r"p000\.png is a picture, but .* predicts from"):
        predict(photos)


def test_the_rows_of_a_table_name_pictures_in_a_folder(predict, tmp_path):
    photos, folder = tmp_path / "photos", tmp_path / "model"
    rows = write_pictures(photos, 5, suffix=".webp")
    workload = Table(
        [Image("file", size=(4, 4)), Number("weight", is_required=True)],
        label=Classes("kind", values=("cat", "dog")),
        key="file",
        name="pets",
    )
    columns = {"file": np.zeros((2, 4, 4, 3), np.uint8), "weight": np.array([1, 9], np.float32)}
    workload = workload.adapt(columns)
    export_model(workload.build_model(), workload, str(folder))
    (photos / "p003.webp").write_bytes(b"no picture")
    table = write_rows(tmp_path / "new.csv", [*rows, {**rows[0], "file": "p009"}])

    _, predictions, errors = predict(table, photos, of=folder)

    known = [row for row in rows if row["file"] != "p003"]
    assert [one["key"] for one in predictions] == [row["file"] for row in known]
    assert {one["row"]: one["reason"] for one in errors} == {
        4: "'p003': the file is not an image that Pillow can read",
        6: "'p009' is the name of no picture",
    }
    sent = []
    for row in known:
        content = base64.b64encode((photos / f"{row['file']}.webp").read_bytes()).decode()
        sent.append({"file": {"b64": content}, "weight": row["weight"]})
    online = [one["probabilities"] for one in load_model(str(folder)).predict(sent)]
    np.testing.assert_allclose(likely(predictions), online, 1e-4)
