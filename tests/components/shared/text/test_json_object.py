"""Damaged JSON files: an error names the file, the problem and the remedy."""

import pytest

from components.endpoint.watch import step as watch
from components.errors import errors_in_one_line
from components.evaluate.step import write_data_facts
from components.model_version.champion import Champion
from components.model_version.companions import read_golden
from components.prepare_examples.errors import DataError
from components.prepare_examples.fingerprint import InputData
from components.prepare_examples.prepare import read_manifest
from components.prepare_examples.statistics.drift import read_baseline
from components.shared.text.json_object import read_object
from components.start.comparison import AskedComparison, compare
from components.start.news import look_for_news
from components.start.trigger import TRAIN, Trigger
from trainer.errors import InputError

pytestmark = pytest.mark.fast

DAMAGES = {
    "empty": b"",
    "not-utf-8": b'{"splits": "\xff"}',
    "utf-16": '{"splits": {}}'.encode("utf-16"),
    "cut": b'{"splits": {',
    "list": b"[]",
    "null": b"null",
    "without-fields": b"{}",
    "other-types": b'{"splits": [], "instances": 1}',
    "deep": b"[" * 100_000,
}


@pytest.fixture(params=DAMAGES.values(), ids=DAMAGES)
def damaged(request, tmp_path):
    """Folder whose files are all damaged in one way."""
    for name in ("golden.json", "statistics.json", "input.json", "manifest.json", "workload.json"):
        (tmp_path / name).write_bytes(request.param)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("golden.json", lambda folder: read_golden({"artifactUri": str(folder)})),
        ("statistics.json", lambda folder: write_data_facts(str(folder), str(folder))),
        ("statistics.json", read_baseline),
        ("manifest.json", read_manifest),
        ("workload.json", lambda folder: watch.read_workload({"artifactUri": str(folder)})),
    ],
    ids=["golden", "statistics", "baseline", "manifest", "description"],
)
def test_a_damaged_file_is_named_with_the_remedy(damaged, name, read):
    with pytest.raises((InputError, DataError)) as raised:
        read(damaged)
    assert str(damaged / name) in str(raised.value)
    assert any(word in str(raised.value) for word in ("--no-cache", "name one in"))


def test_a_run_trains_if_the_record_of_the_served_model_is_damaged(damaged):
    """It could never be repaired otherwise: every run would end there."""
    version = "projects/p/locations/l/models/1@3"
    champion = Champion(version=version, model_uri=str(damaged))
    news = look_for_news(
        Trigger(new_files=True),
        data=InputData(fingerprint="f", files=[]),
        champion=champion,
        last=None,
        now=None,
    )
    assert news.verdict == TRAIN
    assert str(damaged / "input.json") in news.reasons[0]

    asked = AskedComparison(
        version=version,
        model_uri=str(damaged),
        verdict=TRAIN,
        drift=0,
        is_baseline=False,
        drift_threshold=0.1,
        block_on="error",
    )
    comparison = compare("unread", asked.to_json())
    assert comparison.news.verdict == TRAIN
    assert str(damaged / "statistics.json") in comparison.news.reasons[-1]


def test_an_intact_object_is_returned_and_null_is_a_value(tmp_path):
    (tmp_path / "a.json").write_text('{"splits": {"train": null}, "ä": 1}', encoding="utf-8")
    content = read_object(tmp_path / "a.json", "splits.train", "ä")
    assert content == {"splits": {"train": None}, "ä": 1}


def test_a_step_ends_with_one_line(tmp_path):
    (tmp_path / "golden.json").write_bytes(b"[]")
    with (
        pytest.raises(
            SystemExit, match=r"golden\.json is damaged: it is not a JSON object; repeat"
        ),
        errors_in_one_line(),
    ):
        read_object(tmp_path / "golden.json")
