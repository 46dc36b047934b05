"""Skew and drift of an endpoint's requests, which a fake API has logged."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from components.endpoint.watch import __main__ as cli
from components.endpoint.watch.comparison import compare
from components.endpoint.watch.instances import describe as describe_instances
from components.endpoint.watch.options import WatchOptions
from components.endpoint.watch.step import VERDICT_LABEL, record, watch
from components.errors import StepError
from components.prepare_examples.statistics.images import ImageStatistics
from tests.support.data.churn import WORKLOAD, rows, statistics_of
from trainer.errors import ConfigError
from trainer.workloads import ImageFolder
from trainer.workloads.description import describe

pytestmark = pytest.mark.fast

PLACE = "projects/p/locations/l"
ENDPOINT, MODEL = f"{PLACE}/endpoints/9", f"{PLACE}/models/5"


class FakeApi:
    """A service with one endpoint, whose log has the given instances, newest first."""

    def __init__(self, model_dir: Path, instances: list, *, per_request: int = 1):
        self.labels: dict = {}
        self._model_dir = model_dir
        self.requests = [
            {
                "time": f"2026-11-22T00:00:{at % 60:02d}Z",
                "status": 200,
                "request": {"instances": instances[at : at + per_request]},
                "response": {
                    "predictions": [{"label": "no"} for _ in instances[at : at + per_request]]
                },
            }
            for at in range(0, len(instances), per_request)
        ]
        failed = {"time": "t", "status": 400, "request": {"instances": [{}]}, "response": {}}
        self.requests.insert(0, failed)
        self.endpoint = {
            "name": ENDPOINT,
            "displayName": "churn",
            "createTime": "2026",
            "labels": {"team": "a"},
            "predictRequestResponseLoggingConfig": {"enabled": True},
            "deployedModels": [
                {"id": "1", "model": MODEL, "modelVersionId": "3"},
                {"id": "2", "model": MODEL, "modelVersionId": "4"},
            ],
            "trafficSplit": {"1": 90, "2": 10},
        }

    def list_resources(self, kind, **query):
        if kind == f"{ENDPOINT}/loggedRequests":
            return iter(self.requests)
        assert kind == "endpoints"
        return [self.endpoint] if query == {"filter": 'display_name="churn"'} else []

    def get(self, name):
        assert name == f"{MODEL}@3"
        return {"artifactUri": str(self._model_dir)}

    def patch(self, path, body):
        assert path == f"{ENDPOINT}?updateMask=labels"
        self.labels = body["labels"]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """Write what lies beside a model: its description and the statistics of its data."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "workload.json").write_text(json.dumps(describe(WORKLOAD)))
    (folder / "statistics.json").write_text(json.dumps(statistics_of(rows(5000, seed=1))))
    return folder


def verdicts(found) -> dict[tuple[str, str], str]:
    return {(one.feature, one.against): one.verdict for one in found.findings}


def test_requests_like_the_training_data_are_ok(model_dir):
    api = FakeApi(model_dir, rows(800, seed=2), per_request=4)

    found = watch(api, "churn", WatchOptions(last=100, min_instances=100))

    assert found.verdict == "ok"
    names = ("charge", "plan", "tags", "floor")
    pairs = {(name, against) for name in names for against in ("training", "before")}
    assert verdicts(found) == dict.fromkeys({*pairs, ("prediction", "before")}, "ok")
    assert (found.num_instances, found.version, found.notes) == (400, f"{MODEL}@3", ())
    record(api, found)
    assert api.labels == {"team": "a", VERDICT_LABEL: "ok"}


def test_requests_under_the_names_of_the_files_are_the_same():
    workload = replace(WORKLOAD, aliases={"Monthly/€": "charge"})
    declared = rows(60, seed=12)
    own = [{{"charge": "Monthly/€"}.get(name, name): row[name] for name in row} for row in declared]
    found, expected = (describe_instances(r, [{}] * 60, workload) for r in (own, declared))
    assert found == expected


def test_few_like_requests_are_not_taken_for_changed_ones(model_dir):
    options = WatchOptions(min_instances=60)
    found = [watch(FakeApi(model_dir, rows(100, seed=s)), "churn", options) for s in range(15)]

    assert sum(bool(one.changed) for one in found) <= 1


def test_a_changed_feature_is_skew_and_drift(model_dir):
    new, old = rows(300, seed=3, gold=0.6), rows(300, seed=4)
    api = FakeApi(model_dir, new + old)

    found = watch(api, "churn", WatchOptions(last=300))

    changed = {pair: verdict for pair, verdict in verdicts(found).items() if verdict != "ok"}
    assert changed == {("plan", "training"): "skew", ("plan", "before"): "drift"}
    assert found.verdict == "alert"
    assert found.findings[0].feature == "plan"
    assert "skew of plan" in found.words
    assert "(gold: 19.7 → 57.7 %)" in found.words
    record(api, found)
    assert api.labels[VERDICT_LABEL] == "drift-and-skew"
    content = json.loads(found.to_json())
    assert content["verdict"] == "alert"
    assert content["findings"][0]["verdict"] == "skew"
    assert np.isfinite([one["value"] for one in content["findings"]]).all()


def test_a_feature_that_is_missing_has_changed(model_dir):
    new = [{**row, "charge": None} for row in rows(200, seed=5)]

    found = watch(FakeApi(model_dir, new), "churn")

    assert verdicts(found)["charge", "training"] == "skew"
    assert "missing" in next(one.words for one in found.findings if one.feature == "charge")
    assert found.notes == ("too few earlier instances to compare with",)


def test_thresholds_are_the_users(model_dir):
    api = FakeApi(model_dir, rows(1000, seed=6, gold=0.24))
    strict = WatchOptions(thresholds={"psi": 0.001})
    loose = WatchOptions(thresholds={"psi": 9.0})

    assert watch(api, "churn", loose).verdict == "ok"
    found = watch(api, "churn", strict)
    assert all(one.limit > strict.thresholds[one.distance] for one in found.findings)  # chance
    with pytest.raises(ConfigError, match="has no 'ks'"):
        WatchOptions(thresholds={"ks": 0.1})
    with pytest.raises(ConfigError, match="no 'lasts'; did you mean"):
        WatchOptions.from_json('{"lasts": 5}')


def test_too_few_requests_are_no_alert(model_dir):
    found = watch(FakeApi(model_dir, rows(20, seed=7, gold=1.0)), "churn")

    assert (found.verdict, found.num_instances, found.findings) == ("too-few", 20, ())
    assert "20 instances are logged, of at least 100" in found.words


def test_what_cannot_be_watched_is_named(model_dir, tmp_path):
    api = FakeApi(model_dir, rows(5, seed=8))
    with pytest.raises(StepError, match="no endpoint 'other'"):
        watch(api, "other")
    foreign = FakeApi(tmp_path, rows(5, seed=8))
    with pytest.raises(StepError, match=r"has no workload.json: it was exported by another"):
        watch(foreign, "churn")
    (tmp_path / "workload.json").write_text(json.dumps(describe(WORKLOAD)))
    alone = watch(FakeApi(tmp_path, rows(100, seed=9)), "churn")
    assert (alone.verdict, alone.findings) == ("too-few", ())
    assert f"{MODEL}@3 has no statistics.json of its training data" in alone.notes
    api.endpoint["predictRequestResponseLoggingConfig"] = {"enabled": False}
    with pytest.raises(StepError, match="churn logs no requests"):
        watch(api, "churn")
    api.endpoint |= {"predictRequestResponseLoggingConfig": {"enabled": True}}
    api.endpoint["deployedModels"] = []
    with pytest.raises(StepError, match="no model is deployed to churn"):
        watch(api, "churn")


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_compared_by_their_pixels(tmp_path, channels):
    shape = (8, 8) if channels == 1 else (8, 8, 3)
    random = np.random.default_rng(0)
    images = random.integers(0, 120, (400, 64, channels))
    statistics = ImageStatistics(channels)
    statistics.add((images.transpose(0, 2, 1).astype(np.uint8), np.zeros(400, np.int64)))
    train = {"splits": {"train": statistics.summary()}}
    (tmp_path / "statistics.json").write_text(json.dumps(train))
    workload = ImageFolder(size=(8, 8), channels=channels, name="shapes")
    (tmp_path / "workload.json").write_text(json.dumps(describe(workload)))

    def found(pixels):
        instances = [{"image": image.reshape(shape).tolist()} for image in pixels]
        return watch(FakeApi(tmp_path, instances), "churn", WatchOptions(last=120))

    same = random.integers(0, 120, (120, 64, channels))
    assert found(same).verdict == "ok"
    inverted = 255 - same
    inverted[:, :, 1:] = same[:, :, 1:]
    changed = found(inverted)
    first = "image" if channels == 1 else "image, channel 0"
    assert [one.feature for one in changed.changed] == [first]
    assert changed.findings[0].distance == "pixels"


def test_the_program_writes_the_result_and_fails_for_a_change(model_dir, monkeypatch, capsys):
    api = FakeApi(model_dir, rows(200, seed=10, gold=0.9))
    monkeypatch.setattr(cli, "connect", lambda *_: api)

    assert cli.main(["p", "l", "churn", "{}"]) == 3
    assert json.loads(capsys.readouterr().out)["findings"][0]["feature"] == "plan"
    assert cli.main(["p", "l", "churn", '{"last": 20}']) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "too-few"
    assert cli.main(["p", "l", "none", "{}"]) == 1
    assert cli.main(["p", "l", "churn", '{"thresholds": {"psy": 1}}']) == 2


def test_the_step_fails_with_words(model_dir, tmp_path, monkeypatch):
    from components.endpoint.watch.component import watch_endpoint

    api = FakeApi(model_dir, rows(200, seed=11, gold=0.9))
    monkeypatch.setattr("components.shared.vertex.api.connect", lambda *_: api)
    result = SimpleNamespace(path=str(tmp_path / "result"), metadata={})
    place = {"project": "p", "location": "l", "endpoint_name": "churn", "result": result}

    with pytest.raises(SystemExit, match="error: the requests of churn have changed: skew of plan"):
        watch_endpoint.python_func(**place)

    assert json.loads(Path(result.path).read_text())["verdict"] == "alert"
    assert api.labels[VERDICT_LABEL] == "skew"
    loose = '{"thresholds": {"psi": 99}}'
    assert "are like the training data" in watch_endpoint.python_func(**place, options=loose)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_predictions_that_are_not_finite_raise_an_alert(model_dir, value):
    api = FakeApi(model_dir, rows(200, seed=2))
    for logged in api.requests[1:6]:
        logged["response"] = {"predictions": [{"label": "no", "probabilities": [value, 1.0]}]}

    found = watch(api, "churn", WatchOptions(last=100))

    assert found.verdict == "alert"
    assert "not_finite 0.0" in found.words
    assert "4 predictions are not finite numbers" in found.words or "5 pred" in found.words


@pytest.mark.parametrize(
    ("field", "value"),
    [("mean", math.nan), ("mean", -math.inf), ("std", math.nan), ("std", math.inf)],
)
def test_pixels_without_a_mean_or_a_deviation_are_not_ok(field, value):
    good = {"features": {}, "pixels": {"mean": [100.0], "std": [20.0]}}
    bad = {"features": {}, "pixels": {**good["pixels"], field: [value]}}
    for before, after in ((good, bad), (bad, good)):
        [found] = compare(before, after, against="training", thresholds={"pixels": 0.5})
        assert not found.is_ok
