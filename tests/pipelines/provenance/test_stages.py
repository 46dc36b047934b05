"""What the comparison of two trainings says, without a training."""

import dataclasses
from pathlib import Path

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud import storage

from pipelines.provenance import source
from pipelines.provenance.again import tasks_until
from pipelines.provenance.lineage import GONE, _content, _has_row
from pipelines.provenance.record import Record, record_of
from pipelines.provenance.stages import agree, compare, data_stages, explanations, model_stages

pytestmark = pytest.mark.fast

SHARD = {"file": "train-0", "sha256": "a", "num_examples": 9}
EVALUATION = {"metrics": {"accuracy": 0.9}, "intervals": {"accuracy": [0.8, 0.95]}}
MACHINE = {"packages": {"numpy": "2.3.0", "keras": "3.14.0"}, "variables": {}}
RECORD = Record(
    job={},
    model_uri="/m",
    data={"fingerprint": "f", "num_files": 1, "files": [["/a.csv", 10, "x"]]},
    manifest={"splits": {"train": {"num_examples": 9, "shards": [SHARD]}}},
    statistics={"age": {"quantiles": [0, 1, 2.0, 3]}},
    digests={"variables/variables.index": "v", "saved_model.pb": "g"},
    evaluation=EVALUATION,
    machine=MACHINE,
)


def differing(**changes) -> list[str]:
    now = dataclasses.replace(RECORD, **changes)
    pairs = [[facts(one) for one in (RECORD, now)] for facts in (data_stages, model_stages)]
    stages = [stage for pair in pairs for stage in compare(*pair)]
    return [f"{stage.name}: {stage.words}" for stage in stages if not stage.is_same]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        (
            {"data": {**RECORD.data, "files": [["/a.csv", 11, "y"], ["/b.csv", 1, "z"]]}},
            ['raw files: /a.csv: [10, "x"] → [11, "y"], /b.csv: nothing → [1, "z"]'],
        ),
        (
            {"manifest": {"splits": {"train": {"num_examples": 8, "shards": [SHARD]}}}},
            ["examples: examples of train: 9 → 8"],
        ),
        (
            {"statistics": {"age": {"quantiles": [0, 1, 2.5, 3]}}},
            ["statistics: age quantiles 2: 2.0 → 2.5"],
        ),
        (
            {"digests": {**RECORD.digests, "variables/variables.index": "w"}},
            ['weights: variables/variables.index: "v" → "w"'],
        ),
    ],
)
def test_the_stage_that_differs_is_named(changes, said):
    assert differing(**changes) == said


def test_a_difference_is_explained_by_what_is_recorded():
    packages = {"numpy": "2.4.0", "keras": "3.14.0", "more": "1"}
    now = dataclasses.replace(RECORD, machine={"packages": packages, "variables": {"TF_X": "0"}})
    assert explanations(RECORD, now, is_source=True) == [
        'packages numpy: "2.3.0" → "2.4.0"',
        'variables TF_X: nothing → "0"',
    ]
    unknown = dataclasses.replace(RECORD, machine={})
    assert "was not recorded" in explanations(unknown, now, is_source=True)[0]
    assert "no commit of this clone" in explanations(RECORD, RECORD, is_source=False)[0]


@pytest.mark.parametrize(("interval", "is_within"), [([0.7, 0.82], True), ([0.7, 0.79], False)])
def test_asynchronous_trainings_agree_if_their_intervals_overlap(interval, is_within):
    found = {"metrics": {}, "intervals": {"accuracy": interval}}
    assert agree(RECORD, dataclasses.replace(RECORD, evaluation=found)) == is_within


def test_a_row_is_found_by_its_key_as_preparing_matches_columns(tmp_path):
    file = str(tmp_path / "orders.csv")
    Path(file).write_text("Order No,x\n7,1\n")
    keys = [("7", "order_no", {}), ("8", "no", {"Order No": "no"}), ("7", "other", {})]
    assert [_has_row(file, *key, ()) for key in keys] == [True, False, None]
    assert _has_row(file, "Order No", "id", {}, ("id", "x"))
    assert _content(RECORD, "/a.csv", "") == GONE


def test_a_pipeline_is_cut_after_a_task_at_any_depth():
    def dag(**tasks):
        return {"dag": {"tasks": tasks}}

    def task(component, *before):
        return {"componentRef": {"name": component}, "dependentTasks": [*before]}

    spec = {
        "root": dag(group=task("group"), exit=task("step", "group")),
        "components": {
            "step": {"executorLabel": "e"},
            "group": dag(
                a=task("step"), b=task("step", "a"), inner=task("inner", "b"), c=task("step")
            ),
            "inner": dag(last=task("step"), after=task("step", "last")),
        },
    }
    cut = tasks_until(spec, "last")
    assert [*cut["root"]["dag"]["tasks"]] == ["group"]
    assert [*cut["components"]["group"]["dag"]["tasks"]] == ["a", "b", "inner"]
    assert [*cut["components"]["inner"]["dag"]["tasks"]] == ["last"]
    assert "after" in spec["components"]["inner"]["dag"]["tasks"]


def test_commits_are_tried_by_their_distance_from_the_run(monkeypatch, tmp_path):
    log = b"100 early\n2000 after\n1000 before\n"
    monkeypatch.setattr(source, "_git", lambda *_: log)
    tried = []
    monkeypatch.setattr(source, "_check_out", lambda commit, folder, *_: tried.append(commit))
    time = "1970-01-01T00:20:00Z"

    found = source.find_source("src-0123456789ab", time=time, folder=tmp_path)
    assert (tried, found.is_recorded) == (["before", "after", "early"], False)
    source.find_source("docker.pkg.dev/team/trainyard:1", time=time, folder=tmp_path)
    assert len(tried) == 3, "an image with another tag names no source"


def test_files_that_cannot_be_read_are_left_out_with_a_warning(monkeypatch, caplog):
    def forbidden(blob):
        raise Forbidden("no storage.objects.get access")

    monkeypatch.setattr(storage, "Client", lambda: None)
    monkeypatch.setattr(storage.Blob, "download_as_bytes", forbidden)
    assert record_of({}, "gs://b/m").digests == {}
    assert "gs://b/m/input.json cannot be read: 403 no storage.objects.get access" in caplog.text
