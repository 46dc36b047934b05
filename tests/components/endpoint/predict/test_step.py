import copy
import json
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kfp.dsl import Metrics

from components.endpoint.predict.parity import check_parity, request_predictions
from components.endpoint.predict.step import format_table, predict_golden
from components.errors import StepError
from components.shared.vertex import retries
from components.shared.vertex.api import connect
from components.shared.vertex.errors import VertexError
from components.shared.vertex.resource_name import ResourceName
from vertex_local.tests.support.http_server import Handler, serving

pytestmark = pytest.mark.fast

ENDPOINT = "projects/demo/locations/local/endpoints/5"
OFFLINE = [
    {"class": 0, "label": "0", "probabilities": [0.9, 0.1]},
    {"class": 1, "label": "1", "probabilities": [0.2, 0.8]},
]
GOLDEN = {"instances": [{"image": [[0]]}, {"image": [[1]]}], "predictions": OFFLINE}
GOLDEN["labels"] = ["0", "1"]


@dataclass
class Endpoint:
    """Responds to `:predict` as Vertex AI does, after the `failures`."""

    predictions: list[dict] = field(default_factory=lambda: copy.deepcopy(OFFLINE))
    failures: list[tuple[int, str]] = field(default_factory=list)
    requests: list[tuple[str, list]] = field(default_factory=list)

    def respond(self, path: str, body: dict) -> tuple[int, dict]:
        self.requests.append((path, body["instances"]))
        if self.failures:
            code, status = self.failures.pop(0)
            return code, {"error": {"code": code, "status": status, "message": "no"}}
        chosen = [self.predictions[item["image"][0][0]] for item in body["instances"]]
        return 200, {"predictions": chosen, "modelVersionId": "3"}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Answering(Handler):
        def do_POST(self) -> None:
            code, body = endpoint.respond(self.path, json.loads(self.body()))
            self.respond(code, json.dumps(body).encode())

    with serving(Answering) as host:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", host)
        yield endpoint


def changed(index: int, **fields) -> list[dict]:
    predictions = copy.deepcopy(OFFLINE)
    predictions[index].update(fields)
    return predictions


def predict_into(folder: Path, *, version: str = "3") -> Metrics:
    """Run the step with its files in a folder."""
    metrics = Metrics(name="metrics", uri=str(folder / "out" / "metrics"))
    predict_golden(
        connect("demo", "local"),
        GOLDEN,
        endpoint=ENDPOINT,
        version=ResourceName.from_name("projects/demo/locations/local/models/5").with_version(
            version
        ),
        metrics=metrics,
        table_path=str(folder / "out" / "table.md"),
        values={"slowdown": 1.25},
    )
    return metrics


def test_sends_one_batch_and_each_instance_alone(endpoint, tmp_path: Path, caplog):
    caplog.set_level(logging.INFO)
    metrics = predict_into(tmp_path)
    first, second = GOLDEN["instances"]
    assert [sent for _, sent in endpoint.requests] == [[first, second], [first], [second]]
    assert {path for path, _ in endpoint.requests} == {f"/v1/{ENDPOINT}:predict"}
    assert metrics.metadata["num_requests"] == 3
    assert metrics.metadata["slowdown"] == 1.25
    assert metrics.metadata["max_difference"] == 0
    assert 0 < metrics.metadata["latency_ms_median"] <= metrics.metadata["latency_ms_max"]
    assert json.loads((tmp_path / "out" / "metrics").read_text()) == metrics.metadata
    assert "0  0 (0.900000)  0" in caplog.text
    assert "0  0 (0.900000)  0" in (tmp_path / "out" / "table.md").read_text()
    assert "model version 3" in caplog.text


@pytest.mark.usefixtures("endpoint")
def test_an_answer_of_another_version_is_told_from_a_wrong_prediction(tmp_path):
    with pytest.raises(StepError, match=r"version 3 answers in place of version 4: .*meanwhile"):
        predict_into(tmp_path, version="4")


@pytest.mark.parametrize(
    ("failure", "num_failures", "num_requests"),
    [
        ((503, "UNAVAILABLE"), 2, 3),
        ((503, "UNAVAILABLE"), 100, retries.MAX_ATTEMPTS),
        ((400, "INVALID_ARGUMENT"), 1, 1),
    ],
    ids=["unavailable", "always unavailable", "bad instance"],
)
def test_an_unavailable_endpoint_is_retried_and_the_last_error_raised(
    endpoint, monkeypatch, *, failure, num_failures, num_requests
):
    monkeypatch.setattr(retries, "_backoff", lambda state: 0)
    endpoint.failures = [failure] * num_failures
    is_lost = num_requests <= num_failures
    with pytest.raises(VertexError, match=failure[1]) if is_lost else nullcontext():
        found = request_predictions(connect("demo", "local"), ENDPOINT, GOLDEN["instances"])
        assert found.predictions == OFFLINE
    assert len(endpoint.requests) == num_requests


def test_another_prediction_than_offline_fails_the_step(endpoint, tmp_path):
    endpoint.predictions = changed(1, probabilities=[0.25, 0.75])
    with pytest.raises(StepError, match="instance 1"):
        predict_into(tmp_path)


@pytest.mark.parametrize(
    ("online", "problem"),
    [
        (
            changed(1, probabilities=[0.25, 0.75]),
            r"instance 1 \(true label 1\): probabilities\[\d\] is 0\.\d+ online .* 0.05 .*1e-05",
        ),
        (changed(0, **{"class": 1}), "instance 0 .* class is 1 online, 0 offline"),
        (changed(0, probabilities=[float("nan"), 0.1]), "instance 0 .* is nan online"),
        (OFFLINE[:1], "1 predictions.* 2 instances"),
    ],
    ids=["probability", "class", "nan", "count"],
)
def test_a_difference_is_an_error_that_names_the_worst(online, problem):
    with pytest.raises(StepError, match=problem):
        check_parity(online, OFFLINE, ["0", "1"])


@pytest.mark.parametrize(
    ("online", "offline", "difference"),
    [
        ({"probabilities": [0.200004]}, {"probabilities": [0.2]}, 4e-6),
        ({"class": 1.0}, {"class": 1}, 0),
        ({"value": 350_001.0}, {"value": 350_000.0}, 1 / 350_000),
        ({"value": 350_000}, {"value": 350_000.0}, 0),
        ({"labels": ["a"], "probabilities": [0.9]}, {"labels": ["a"], "probabilities": [0.9]}, 0),
        ({"price": {"low": [1.000001]}, "key": 3}, {"price": {"low": [1.0]}}, 1e-6),
        ("a", "a", 0),
    ],
    ids=["tiny", "class as a float", "large", "whole online", "several labels", "hook", "text"],
)
def test_predictions_of_any_kind_are_compared(online, offline, difference):
    found = check_parity([online], [offline], [["a", "b"]])
    assert found == pytest.approx(difference, abs=1e-12, rel=1e-3)


@pytest.mark.parametrize(
    ("online", "offline", "problem"),
    [
        ({"value": 351_000.0}, {"value": 350_000.0}, r"2\.5\): value is 351000 online"),
        ({"value": None}, {"value": 1.0}, "value is None online, 1.0 offline"),
        ({"labels": ["a"]}, {"labels": ["a", "b"]}, "labels has 1 values online, 2 offline"),
        ({"labels": ["a"]}, {"labels": ["b"]}, r"labels\[0\] is 'a' online, 'b' offline"),
        ({"value": 1.0}, {"price": 1.0}, "'price' is only in the prediction offline"),
        ({"size": 2}, {"size": 1}, "size is 2 online, 1 offline"),
        ("a", {"value": 1.0}, "the prediction is 'a' online"),
        ({"found": 1}, {"found": True}, "found is 1 online, True offline"),
    ],
    ids=["value", "null", "fewer labels", "label", "field", "whole", "structure", "truth value"],
)
def test_a_difference_of_any_kind_is_named(online, offline, problem):
    with pytest.raises(StepError, match=rf"instance 0 \(true label .*{problem}"):
        check_parity([online], [offline], [2.5])


def test_the_table_has_what_is_predicted_beside_the_true_label():
    predictions = [
        {"label": "a", "probabilities": [0.75, 0.25]},
        {"labels": ["a", "b"]},
        {"value": 3.25},
        {"price": 3},
        "text",
    ]
    lines = format_table(predictions, ["b", ["a"], 3.0, 4.0, 5.0]).splitlines()
    assert [line.split() for line in lines] == [
        ["index", "prediction", "true", "label"],
        ["0", "a", "(0.750000)", "b"],
        ["1", "a,", "b", "a"],
        ["2", "3.25", "3"],
        ["3", '{"price":', "3}", "4"],
        ["4", '"text"', "5"],
    ]
