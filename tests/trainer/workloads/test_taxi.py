"""The taxi workload, from examples to an evaluated model and its predictions."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from components.endpoint.predict.parity import check_parity
from components.evaluate.case import Case
from components.evaluate.held_out import read_held_out
from components.prepare_examples.prepare import prepare
from components.prepare_examples.settings.options import PrepareOptions
from tests.support.data.offline import evaluated_offline
from tests.support.data.trips import write_trips
from tests.trainer.support.jobs import new_job, train
from trainer.errors import InputError
from trainer.examples.manifest import read_manifest
from trainer.examples.tables import read_table
from trainer.serving.export import load_predictor
from trainer.training.facts import find_facts
from trainer.workloads import Table, load_workload

TAXI = load_workload("taxi")


def test_a_trained_model_is_evaluated_and_repeats_its_predictions(trips_dir, tmp_path):
    folders = train(trips_dir, tmp_path, workload="taxi", epochs=20).folders
    case = Case(
        model_dir=folders.model,
        examples_dir=str(trips_dir),
        thresholds='{"auc": 0.95, "accuracy": 0.9}',
    )
    evaluated = evaluated_offline(case)
    assert evaluated.judgement.is_passed, evaluated.judgement.reasons
    golden = evaluated.golden
    assert {"small tip", "big tip"} == set(golden["labels"])
    assert "company" not in min(golden["instances"], key=len)
    predictions = load_predictor(folders.model).predict(golden["instances"])
    check_parity(predictions, golden["predictions"], golden["labels"])


def test_held_out_data_is_collected_from_small_tables(trips_dir, monkeypatch):
    taxi = load_workload("taxi")
    split = read_manifest(str(trips_dir), workload="taxi").splits["test"]
    table, labels = read_table(split, taxi, compression="GZIP", raw=True)

    def predict(features):
        share = 1 / (1 + features["fare"].numpy())
        return np.stack([share, 1 - share], axis=1)

    monkeypatch.setattr("trainer.examples.tables.CHUNK_SIZE", 33)
    predictor = SimpleNamespace(workload=taxi, predict_values=predict, compiled_score=lambda: None)
    found = read_held_out(str(trips_dir), predictor)

    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.predictions, predict(table))
    assert 24 <= len(found.rows) <= 24 + 10
    assert max(found.rows) > 33
    for index, row in found.rows.items():
        np.testing.assert_equal(
            row, {name: column.numpy()[index] for name, column in table.items()}
        )


def test_a_resumed_job_has_the_same_facts_and_examples(trips_dir, tmp_path, monkeypatch):
    settings = {"workload": "taxi", "steps": 4}
    first = train(trips_dir, tmp_path / "out", cache="stream", cache_gb=1e-5, **settings)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "adapt", lambda *_: pytest.fail("facts were found anew"))
        again = new_job(trips_dir, tmp_path / "out", **settings)
    assert again.workload == first.workload
    assert again.workload.learnt.vocabularies["company"] == ["Café Cabs"]

    others = tmp_path / "others"
    others.mkdir()
    splits = {
        name: write_trips(others, name, 300, np.random.default_rng(6)) for name in ("train", "eval")
    }
    manifest = {"workload": "taxi", "compression": "GZIP", "splits": splits}
    (others / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"--examples-dir: .*out/.* train examples .*/others;"):
        new_job(others, tmp_path / "out", **settings)
    assert new_job(others, tmp_path / "out", fresh=True, **settings).workload != first.workload


def test_facts_of_many_examples_are_those_of_every_nth_one(trips_dir, monkeypatch):
    monkeypatch.setattr("trainer.training.facts._MOST_EXAMPLES", 100)
    taxi, split = (
        load_workload("taxi"),
        read_manifest(str(trips_dir), workload="taxi").splits["train"],
    )
    columns, _ = read_table(split, taxi, compression="GZIP", raw=True)
    every_third = {name: column.numpy()[::3] for name, column in columns.items()}
    assert find_facts(taxi, split, compression="GZIP") == taxi.adapt(every_third)


@pytest.fixture(scope="module")
def prepared() -> dict[int, Path]:
    """Folders of prepared trips, by the decimals of their fares."""
    return {}


@pytest.fixture
def prepared_split(tmp_path, tmp_path_factory, taxi_rows, write_csv, prepared):
    """Return the train split of a copy of prepared trips with fares of `digits` decimals."""

    def prepare_trips(digits):
        random = np.random.default_rng(8)
        rows = taxi_rows(2500)
        for row in rows:
            row["fare"] = f"{random.gamma(2, 6):.{digits}f}"
            row["trip_seconds"] = str(60 * random.integers(90))
            row["company"] = random.choice(["", "Café Cabs", "Blue, Inc.", "Alpha"])
        rows[0]["company"] = "Rare Cabs"
        options = PrepareOptions(files=[str(write_csv(rows))])
        folder = tmp_path_factory.mktemp("trips") / "examples"
        prepare("taxi", output_dir=folder, options=options)
        return folder

    def split(digits):
        if digits not in prepared:
            prepared[digits] = prepare_trips(digits)
        folder = shutil.copytree(prepared[digits], tmp_path / "examples")
        return read_manifest(str(folder), workload="taxi").splits["train"]

    return split


def facts_of_examples(split):
    columns, _ = read_table(split, TAXI, compression="GZIP", raw=True)
    return TAXI.adapt({name: column.numpy() for name, column in columns.items()}).learnt


def test_facts_come_from_statistics_and_equal_those_of_the_examples(prepared_split, monkeypatch):
    split = prepared_split(digits=1)
    expected = facts_of_examples(split)
    monkeypatch.setattr("trainer.training.facts.Decoder", lambda *_, **__: pytest.fail("read"))
    found = find_facts(TAXI, split, compression="GZIP").learnt
    assert found.boundaries == expected.boundaries
    assert found.vocabularies == expected.vocabularies
    assert set(found.vocabularies["company"]) == {"Café Cabs", "Blue, Inc.", "Alpha"}
    assert found.moments == expected.moments
    assert len(found.boundaries["fare"]) == 19


def test_facts_of_columns_with_many_values_come_from_percentiles(prepared_split):
    split = prepared_split(digits=6)
    expected, found = facts_of_examples(split), find_facts(TAXI, split, compression="GZIP").learnt
    np.testing.assert_allclose(found.boundaries["fare"], expected.boundaries["fare"], rtol=0.01)
    np.testing.assert_allclose(found.moments["fare"], expected.moments["fare"], rtol=0.05)
    assert found.moments["fare"] != expected.moments["fare"]
    assert found.vocabularies == expected.vocabularies


@pytest.mark.parametrize("change", ["missing", "damaged", "of other examples", "sampled texts"])
def test_facts_come_from_the_examples_where_the_statistics_do_not_suffice(prepared_split, change):
    split = prepared_split(digits=6)
    path = Path(split.paths[0]).with_name("statistics.json")
    content = json.loads(path.read_text())
    if change == "of other examples":
        content["splits"]["train"]["num_examples"] -= 1
    content["splits"]["train"]["features"]["company"]["is_exact"] = change != "sampled texts"
    path.write_text("{" if change == "damaged" else json.dumps(content))
    if change == "missing":
        path.unlink()
    assert find_facts(TAXI, split, compression="GZIP").learnt == facts_of_examples(split)
