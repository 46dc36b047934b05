"""Drift since the promoted version, and the facts that are kept beside a model."""

import json
import math

import pytest

from components.evaluate.step import write_data_facts
from components.model_version.companions import RUN_DIGESTS_FILE
from components.prepare_examples.errors import DataError
from components.prepare_examples.statistics.drift import Drift, beyond, drift_anomalies
from components.start.comparison import AskedComparison, DataComparison, compare, judge_drift
from components.start.news import News
from components.start.trigger import COMPARE, NOTHING_NEW, TRAIN

pytestmark = pytest.mark.fast
VERSION = "projects/p/locations/l/models/5@3"


def statistics(cash, card):
    values = [["Cash", cash], ["Card", card]]
    paid = {"type": "STRING", "num_present": cash + card, "num_missing": 0, "top_values": values}
    split = {"num_examples": cash + card, "features": {"paid": {**paid, "num_unique": 2}}}
    return {"workload": "taxi", "splits": dict.fromkeys(("train", "eval", "test"), split)}


@pytest.fixture
def folders(tmp_path):
    """The examples of a night, and a model that has learnt from other ones."""
    examples, model, before = (tmp_path / name for name in ("examples", "model", "before"))
    for folder, content in ((examples, statistics(60, 40)), (before, statistics(80, 20))):
        folder.mkdir()
        (folder / "statistics.json").write_text(json.dumps(content))
        (folder / "input.json").write_text('{"fingerprint": "f"}')
        rule = {"split_rule": "by a hash of id: train 0.8; limited to the first of each"}
        (folder / "manifest.json").write_text(json.dumps(rule))
    model.mkdir()
    write_data_facts(str(model), str(before))
    return examples, model


def compared(folders, *, verdict=COMPARE, drift=0.0, block_on="error"):
    examples, model = folders
    asked = AskedComparison(
        version=VERSION,
        model_uri=str(model),
        verdict=verdict,
        drift=drift,
        is_baseline=verdict == TRAIN,
        drift_threshold=0.1,
        block_on=block_on,
    )
    return compare(str(examples), asked.to_json())


def test_a_model_keeps_the_statistics_of_its_train_split_and_its_input(folders):
    _, model = folders
    content = json.loads((model / "statistics.json").read_text())
    assert list(content["splits"]) == ["train"]
    assert json.loads((model / "input.json").read_text()) == {
        "fingerprint": "f",
        "split": {"rule": "by a hash of id: train 0.8", "columns": []},
    }


@pytest.mark.parametrize(("limit", "verdict"), [(0.1, TRAIN), (0.5, NOTHING_NEW)])
def test_a_run_trains_if_a_feature_has_drifted_by_more_than_the_limit(folders, limit, verdict):
    found = compared(folders, drift=limit)
    assert found.news.verdict == verdict
    [psi] = [one.psi for one in found.distances]
    assert 0.1 < psi < 0.5
    assert f"{psi:.3f}" in found.news.reasons[-1]
    assert json.loads(found.to_json())["baseline"] == VERSION


def test_the_previous_baseline_describes_the_drift_in_words(folders):
    found = compared(folders, verdict=TRAIN)
    assert found.news.verdict == TRAIN
    assert found.words == ("paid: Card: 20 → 40 %",)


def test_drift_from_the_previous_baseline_fails_a_run_that_warnings_block(folders):
    with pytest.raises(DataError, match="paid"):
        compared(folders, verdict=TRAIN, block_on="warning")


@pytest.mark.parametrize(
    ("removed", "reason"),
    [
        (("statistics.json", RUN_DIGESTS_FILE), "version 3 has no statistics of its data"),
        (("statistics.json",), "statistics.json is missing; "),
    ],
    ids=["never had any", "lost"],
)
def test_without_its_statistics_a_run_trains(folders, removed, reason):
    examples, model = folders
    for name in removed:
        (model / name).unlink()
    found = compared(folders, drift=9.0)
    assert found.news.verdict == TRAIN
    assert reason in found.news.reasons[0]
    assert examples.is_dir()


def test_nothing_is_compared_unless_it_is_asked_for():
    assert compare("/no/such/folder", "") == DataComparison(news=News(verdict=TRAIN))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_distance_that_is_not_finite_is_a_drift(value):
    drift = Drift(feature="paid", psi=value, words="paid")
    assert beyond([drift], 0.25) == [drift]
    assert len(drift_anomalies([drift], 0.25)) == 1
    assert judge_drift([drift], 0.1, "version 3").verdict == TRAIN
