"""Batch prediction of every kind of file, with a small model that nobody has trained."""

import base64
import csv
import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from components.batch_predict.__main__ import main
from components.batch_predict.component import batch_predict
from components.batch_predict.inputs import records
from components.batch_predict.inputs.batch import Batch
from components.batch_predict.options import PredictOptions
from components.batch_predict.output import PartFiles
from components.batch_predict.part import load_model
from components.batch_predict.step import predict_files
from components.model_version.champion import Champion
from components.prepare_examples.errors import DataError
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


def predictions_in(folder: Path) -> list[dict]:
    lines = [path.read_text().splitlines() for path in sorted(folder.glob("predictions-*.jsonl"))]
    return [json.loads(line) for of_file in lines for line in of_file]


def errors_in(folder: Path) -> list[dict]:
    lines = [path.read_text().splitlines() for path in sorted(folder.glob("errors-*.jsonl"))]
    return [json.loads(line) for of_file in lines for line in of_file]


def write_table(path: Path) -> Path:
    rows = [csv_row(number) for number in range(NUM_ROWS)]
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


WRITERS = {
    "rows.csv": lambda path: write_csv(path, [csv_row(number) for number in range(NUM_ROWS)]),
    "rows.parquet": write_table,
    "rows.jsonl": lambda path: write_lines(
        path, [{**instance(number), "key": f"c{number}"} for number in range(NUM_ROWS)]
    ),
    "own_names.jsonl": lambda path: write_lines(
        path, [{**under_own_names(number), "key": f"c{number}"} for number in range(NUM_ROWS)]
    ),
    "rows.tfrecord.gz": lambda path: write_records(path, [*map(example, range(NUM_ROWS))]),
    "part-00000-of-00001": lambda path: zipped(
        write_records(path, [*map(example, range(NUM_ROWS))])
    ),
    "utf-16.csv": lambda path: recoded(
        write_csv(path, [csv_row(number) for number in range(NUM_ROWS)]), "utf-16"
    ),
    "table.jsonl": lambda path: write_lines(path, [csv_row(number) for number in range(NUM_ROWS)]),
    "array.json": lambda path: write_lines(path, [[csv_row(number) for number in range(NUM_ROWS)]]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gets_the_servers_predictions(name, model, expected, tmp_path):
    file = WRITERS[name](tmp_path / name)

    summary = predict_files(model, inputs=[str(file)], output_dir=tmp_path / "out")

    found = predictions_in(tmp_path / "out")
    assert [one["row"] for one in found] == list(range(1, NUM_ROWS + 1))
    assert [one["key"] for one in found] == [f"c{number}" for number in range(NUM_ROWS)]
    assert {one["file"] for one in found} == {str(file)}
    assert [one["prediction"]["label"] for one in found] == [one["label"] for one in expected]
    for one, same in zip(found, expected, strict=True):
        likely = one["prediction"]["probabilities"]
        np.testing.assert_allclose(likely, same["probabilities"], atol=1e-5)
    assert (summary["predictions"], summary["errors"], summary["files"]) == (NUM_ROWS, 0, 1)
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary
    unused = (
        ["kind", "remark"] if name.endswith((".csv", ".parquet", ".json", "table.jsonl")) else []
    )
    assert summary["unused_columns"] == unused


def test_lines_without_label_and_with_the_key_are_rows_of_a_table(model, tmp_path):
    rows = [csv_row(number) for number in range(3)]
    new = [{name: row[name] for name in row if name not in ("kind", "remark")} for row in rows]
    file = write_lines(tmp_path / "new.jsonl", new)
    summary = predict_files(model, inputs=[str(file)], output_dir=tmp_path / "out")
    assert (summary["predictions"], summary["unused_columns"]) == (3, [])


def test_a_wrong_field_in_the_first_line_is_an_error_of_its_line(model, tmp_path):
    file = write_lines(tmp_path / "rows.jsonl", [{**instance(1), "chargee": 2}, instance(2)])
    predict_files(
        model,
        inputs=[str(file)],
        output_dir=tmp_path / "out",
        options=PredictOptions(max_errors=0.5),
    )
    [error] = errors_in(tmp_path / "out")
    assert (error["row"], error["reason"][:23]) == (1, "unknown field 'chargee'")


def test_lines_without_a_prediction_have_no_unknown_values(model, tmp_path):
    file = write_lines(tmp_path / "rows.jsonl", ["{broken", "[1]"])
    with pytest.raises(DataError, match="2 of 2 rows"):
        predict_files(model, inputs=[str(file)], output_dir=tmp_path / "out")


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_values_that_the_model_has_not_learnt_are_said(name, model, tmp_path, capsys):
    plans, tags = ["gold", "basic", "gold", ""], [["x"], ["z"], ["x"], []]
    for part in range(2):
        rows = [{**instance(1), "plan": p, "tags": t} for p, t in zip(plans, tags, strict=True)]
        if name == "csv":
            cells = [{"type": row["plan"], "tags": "|".join(row["tags"])} for row in rows]
            write_csv(tmp_path / f"{part}.csv", [{**csv_row(1), **cell} for cell in cells])
        else:
            write_lines(tmp_path / f"{part}.jsonl", rows)
    words = ["--model", model, "--input", str(tmp_path / f"*.{name}"), "--output"]
    assert main([*words, str(tmp_path / "out")]) == 0
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["unknown_values"] == {
        "plan": {"values": 4, "example": "gold"},
        "tags": {"values": 2, "example": "z"},
    }
    said = "values that the model does not know: plan (4, such as 'gold'), tags (2, such as 'z')"
    assert said in capsys.readouterr().out


BAD = {
    "rows.csv": lambda path: write_csv(
        path,
        [
            csv_row(1),
            {**csv_row(2), "Monthly": "many"},
            {**csv_row(3), "Monthly": "501"},
            csv_row(4),
        ],
    ),
    "rows.jsonl": lambda path: write_lines(
        path, [instance(1), "{broken", {**instance(2), "day": 0}, "", instance(4)]
    ),
    "rows.tfrecord": lambda path: write_records(
        path, [example(1), b"\n\xff", make_example({"charge": "text"}), example(4)]
    ),
}
REASONS = {
    "rows.csv": ["'many' is not a number", "501 is impossible"],
    "rows.jsonl": ["Expecting property name", "day is 0"],
    "rows.tfrecord": ["is no example of churn", "is no example of churn"],
}


@pytest.mark.parametrize("name", BAD)
def test_a_row_without_a_prediction_is_written_apart(name, model, expected, tmp_path):
    file = BAD[name](tmp_path / name)
    out = tmp_path / "out"

    summary = predict_files(
        model, inputs=[str(file)], output_dir=out, options=PredictOptions(max_errors=0.5)
    )

    assert (summary["rows"], summary["predictions"], summary["errors"]) == (4, 2, 2)
    last = 5 if name == "rows.jsonl" else 4  # the fourth line is blank
    found = predictions_in(out)
    assert [one["row"] for one in found] == [1, last]
    np.testing.assert_allclose(
        [one["prediction"]["probabilities"] for one in found],
        [expected[number]["probabilities"] for number in (1, 4)],
        atol=1e-5,
    )
    errors = errors_in(out)
    assert [(one["file"], one["row"]) for one in errors] == [(str(file), 2), (str(file), 3)]
    for one, reason in zip(errors, REASONS[name], strict=True):
        assert reason in one["reason"]
    with pytest.raises(DataError, match=r"2 of 4 rows \(50.0%\) have no prediction.*row 2"):
        predict_files(model, inputs=[str(file)], output_dir=tmp_path / "strict")
    assert not (tmp_path / "strict").exists()


def test_a_sequence_example_among_records_is_an_error_of_its_row(model, tmp_path):
    context = tf.train.Example.FromString(example(1)).features
    sequence = tf.train.SequenceExample(context=context)
    sequence.feature_lists.feature_list["frames"].feature.add().float_list.value.append(1.0)
    records = [example(0), sequence.SerializeToString(), example(2)]
    path = write_records(tmp_path / "rows.tfrecord", records)
    options = PredictOptions(max_errors=0.5)
    predict_files(model, inputs=[str(path)], output_dir=tmp_path / "out", options=options)
    assert [one["key"] for one in predictions_in(tmp_path / "out")] == ["c0", "c2"]
    [error] = errors_in(tmp_path / "out")
    assert error["row"] == 2
    assert error["reason"].startswith("is a tf.train.SequenceExample")


def test_many_files_become_shards_of_parquet(model, expected, tmp_path):
    for at in range(3):
        rows = [csv_row(number) for number in range(20 * at, 20 * at + 20)]
        write_csv(tmp_path / f"part-{at}.csv", rows)
    (tmp_path / "zipped.jsonl.gz").write_bytes(gzip.compress(json.dumps(instance(1)).encode()))
    options = PredictOptions(format="parquet", beam_options=("--direct_num_workers=2",))
    inputs = [str(tmp_path / "part-*.csv"), str(tmp_path / "zipped.jsonl.gz")]

    summary = predict_files(model, inputs=inputs, output_dir=tmp_path / "out", options=options)

    assert [shard["file"] for shard in summary["shards"]] == [
        "predictions-00000-of-00002.parquet",
        "predictions-00001-of-00002.parquet",
    ]
    tables = [parquet.read_table(tmp_path / "out" / s["file"]) for s in summary["shards"]]
    rows = tables[0].to_pylist()
    assert [(Path(one["file"]).name, one["row"]) for one in rows] == [
        (f"part-{at}.csv", row + 1) for at in range(3) for row in range(20)
    ]
    assert [one["prediction"]["label"] for one in rows] == [one["label"] for one in expected]
    assert tables[1].column("key").to_pylist() == [None]


def test_a_part_without_predictions_is_a_parquet_file_of_the_same_schema(model, tmp_path):
    good = write_lines(tmp_path / "good.jsonl", [instance(1)])
    bad = write_csv(tmp_path / "bad.csv", [{**csv_row(1), "Monthly": "many"}])
    out = tmp_path / "out"
    options = PredictOptions(format="parquet", max_errors=0.5)

    predict_files(model, inputs=[str(good), str(bad)], output_dir=out, options=options)

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

    with PartFiles(tmp_path, number=0, num_parts=1, kind="parquet", specs=specs) as files:
        files.write(one_row(1), [none])
        files.write(one_row(2), [some])

    table = parquet.read_table(tmp_path / "predictions-00000-of-00001.parquet")
    assert table.column("prediction").to_pylist() == [none, some]


def test_predictions_of_a_hook_that_change_their_type_are_an_error_with_words(tmp_path):
    with PartFiles(tmp_path, number=0, num_parts=1, kind="parquet") as files:
        files.write(one_row(1), [{"price": 3}])
        with pytest.raises(DataError, match=r"rows 2 to 2 do not fit Parquet's columns .* jsonl"):
            files.write(one_row(2), [{"price": "unknown"}])


def test_only_an_earlier_prediction_is_replaced(model, tmp_path):
    file = write_lines(tmp_path / "rows.jsonl", [instance(1)])
    out = tmp_path / "out"
    predict_files(model, inputs=[str(file)], output_dir=out)
    write_lines(file, [instance(1), instance(2)])
    assert predict_files(model, inputs=[str(file)], output_dir=out)["predictions"] == 2
    assert len(predictions_in(out)) == 2

    (out / "notes.txt").touch()
    with pytest.raises(DataError, match=r"contains 'notes.txt', which is not part of a batch"):
        predict_files(model, inputs=[str(file)], output_dir=out)
    assert len(predictions_in(out)) == 2
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_wrong_input_is_named(model, tmp_path, capsys):
    short = write_csv(tmp_path / "short.csv", [{"customer": "c", "charges": 1}])
    other = write_lines(tmp_path / "rows.xml", ["<?xml version='1.0'?>"])
    context = tf.train.Example.FromString(example(1)).features
    lists = {"feature_list": {"x": {}}}
    frames = tf.train.SequenceExample(context=context, feature_lists=lists)
    sequence = write_records(tmp_path / "frames", [frames.SerializeToString()])
    damaged = tmp_path / "rows.tfrecord"
    write_records(damaged, [example(1)])
    damaged.write_bytes(damaged.read_bytes()[:-3])
    messages = {
        short: "short.csv: the column 'charge' is missing, which the model needs; did you mean",
        other: "rows.xml is a web page or XML",
        sequence: "frames: the first record is a tf.train.SequenceExample",
        damaged: "rows.tfrecord is damaged after record 0",
        tmp_path / "no.csv": "no.csv matches no file",
    }
    for path, message in messages.items():
        words = ["--model", model, "--input", str(path), "--output", str(tmp_path / "out")]
        assert main(words) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_is_named_with_the_last_record_that_was_read(model, tmp_path, monkeypatch):
    """Also after a record that cannot be parsed, from which on each batch is read with care."""
    monkeypatch.setattr(records, "BATCH_ROWS", 2)
    bad = make_example({"charge": "text"})
    file = write_records(tmp_path / "rows.tfrecord", [example(1), bad, *map(example, range(3))])
    file.write_bytes(file.read_bytes()[:-3])

    with pytest.raises(DataError, match="is damaged after record 4 "):
        list(records.read_records({"path": str(file)}, load_model(model)))


def test_the_step_describes_its_predictions(model, tmp_path, monkeypatch):
    file = write_lines(tmp_path / "rows.jsonl", [instance(1), instance(2)])
    artifact = SimpleNamespace(uri="", path=str(tmp_path / "unused"), metadata={})
    monkeypatch.setenv("VERTEX_EMULATOR_HOST", "127.0.0.1:1")  # not asked
    champions = {"churn": Champion(version="m@1", model_uri=model)}
    monkeypatch.setattr(
        "components.model_version.champion.find_champion",
        lambda _api, name: champions.get(name, Champion()),
    )
    given = {"project": "p", "location": "us-central1", "model_name": "churn"}
    given |= {"inputs": str(file), "predictions": artifact}

    out = str(tmp_path / "out")
    assert batch_predict.python_func(**given, output_dir=out) == (2, 0)

    assert (artifact.uri, artifact.metadata["predictions"]) == (out, 2)
    wrong = {"model_name": "none", "inputs": "rows.jsonl", "options": '{"formats": "jsonl"}'}
    messages = ("no promoted version", "'rows.jsonl', a relative path", "did you mean 'format'")
    for (name, value), message in zip(wrong.items(), messages, strict=True):
        with pytest.raises(SystemExit, match=message):
            batch_predict.python_func(**{**given, name: value})


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_prediction_that_is_not_finite_is_an_error_of_its_row(tmp_path, kind):
    table = Table([Number("x")], label=Regression("y"), name="t")
    table, _ = adapted(table, [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}])
    encoded = table.preprocess(table.encode({"x": tf.constant([1.0])}))
    inputs = {name: tf.keras.Input(one.shape[1:], name=name) for name, one in encoded.items()}
    folder = tmp_path / "model"
    export_model(tf.keras.Model(inputs, inputs["amounts"][:, :1] ** 99), table, str(folder))
    rows = [{"x": 0.5}, {"x": 1e9}, {"x": 0.25}]
    write = write_csv if kind == "csv" else write_lines
    file, out = write(tmp_path / f"rows.{kind}", rows), tmp_path / "out"

    predict_files(
        str(folder), inputs=[str(file)], output_dir=out, options=PredictOptions(max_errors=0.5)
    )

    assert [one["row"] for one in predictions_in(out)] == [1, 3]
    [error] = errors_in(out)
    assert (error["row"], error["reason"]) == (2, "its prediction is not finite: 'value' is inf")


def test_a_model_of_another_program_takes_json_lines_of_its_instances(tmp_path):
    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def __call__(self, x):
            return {"twice": 2 * x}

    module = Doubled()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.__call__)
    file = write_lines(tmp_path / "rows.jsonl", [[1, 2], [1, 2, 3], [3, 4]])
    options = PredictOptions(max_errors=0.5)
    model, out = str(tmp_path / "model"), tmp_path / "out"

    predict_files(model, inputs=[str(file)], output_dir=out, options=options)

    assert [(one["row"], one["prediction"]) for one in predictions_in(out)] == [
        (1, [2.0, 4.0]),
        (3, [6.0, 8.0]),
    ]
    [error] = errors_in(out)
    assert error["row"] == 2
    assert "shape (3,)" in error["reason"]
    table = write_csv(tmp_path / "rows.csv", [{"x": 1}])
    with pytest.raises(DataError, match="only JSON lines of its instances"):
        predict_files(model, inputs=[str(table)], output_dir=out)


def test_a_model_of_images_takes_a_folder_of_pictures(model, tmp_path):
    photos = tmp_path / "photos"
    write_pictures(photos, 3, suffix=".png")
    workload = ImageFolder(size=(4, 4), label=Classes("kind", values=("cat", "dog")), name="pets")
    workload = workload.adapt({"image": np.zeros((2, 4, 4, 3), np.uint8)})
    export_model(workload.build_model(), workload, str(tmp_path / "model"))
    (photos / "p001.png").write_bytes(b"no picture")
    (photos / "remarks.txt").write_text("by me")
    (photos / "Thumbs.db").write_bytes(b"\xd0\xcf")
    predict_files(
        str(tmp_path / "model"),
        inputs=[str(photos)],
        output_dir=tmp_path / "out",
        options=PredictOptions(max_errors=0.5),
    )
    assert [one["key"] for one in predictions_in(tmp_path / "out")] == ["p000.png", "p002.png"]
    errors = errors_in(tmp_path / "out")
    assert [Path(error["file"]).name for error in errors] == ["p001.png", "remarks.txt"]
    with pytest.raises(DataError, match=r"p000\.png is a picture, but .* predicts from"):
        predict_files(model, inputs=[str(photos)], output_dir=tmp_path / "other")


def test_the_reason_of_a_record_of_another_shape_is_named(model, tmp_path):
    other = make_example({**instance(1), "vector": [1.0, 2.0, 3.0]})
    path = write_records(tmp_path / "rows.tfrecord", [example(1), other])
    options = PredictOptions(max_errors=0.5)
    predict_files(model, inputs=[str(path)], output_dir=tmp_path / "out", options=options)
    [error] = errors_in(tmp_path / "out")
    assert "Key: vector, Index: 0.  Number of float values != expected" in error["reason"]


def test_the_rows_of_a_table_name_pictures_in_a_folder(tmp_path):
    rows = write_pictures(tmp_path / "photos", 5, suffix=".webp")
    workload = Table(
        [Image("file", size=(4, 4)), Number("weight", is_required=True)],
        label=Classes("kind", values=("cat", "dog")),
        key="file",
        name="pets",
    )
    columns = {"file": np.zeros((2, 4, 4, 3), np.uint8), "weight": np.array([1, 9], np.float32)}
    workload = workload.adapt(columns)
    export_model(workload.build_model(), workload, str(tmp_path / "model"))
    (tmp_path / "photos/p003.webp").write_bytes(b"no picture")
    table = write_rows(tmp_path / "new.csv", [*rows, {**rows[0], "file": "p009"}])
    predict_files(
        str(tmp_path / "model"),
        inputs=[str(table), str(tmp_path / "photos")],
        output_dir=tmp_path / "out",
        options=PredictOptions(max_errors=0.5),
    )
    found = predictions_in(tmp_path / "out")
    assert [one["key"] for one in found] == ["p000", "p001", "p002", "p004"]
    [errors] = (tmp_path / "out").glob("errors-*")
    reasons = {
        entry["row"]: entry["reason"] for entry in map(json.loads, errors.read_text().splitlines())
    }
    assert reasons == {
        4: "'p003': the file is not an image that Pillow can read",
        6: "'p009' is the name of no picture",
    }
    sent = [
        {"file": {"b64": base64.b64encode(path.read_bytes()).decode()}, "weight": row["weight"]}
        for row in rows
        if (path := tmp_path / f"photos/{row['file']}.webp") and row["file"] != "p003"
    ]
    expected = load_model(str(tmp_path / "model")).predict(sent)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one["prediction"]["probabilities"], other["probabilities"], 1e-4)
