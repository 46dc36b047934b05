import copy
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kfp.dsl import Metrics

from components.predict.asking import request_predictions
from components.predict.parity import ParityError, check_parity
from components.predict.step import check_endpoint, predict_golden
from components.vertex import retries
from components.vertex.api import VertexError, connect
from tests.support.http_server import Handler, serving

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
    """Answers `:predict` as Vertex AI does; `failures` come first."""

    predictions: list[dict] = field(default_factory=lambda: copy.deepcopy(OFFLINE))
    failures: list[tuple[int, str]] = field(default_factory=list)
    requests: list[tuple[str, list]] = field(default_factory=list)

    def answer(self, path: str, body: dict) -> tuple[int, dict]:
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
            code, answer = endpoint.answer(self.path, json.loads(self.body()))
            self.answer(code, json.dumps(answer).encode())

    with serving(Answering) as host:
        monkeypatch.setenv("VERTEX_EMULATOR_HOST", host)
        yield endpoint


def changed(index: int, **fields) -> list[dict]:
    predictions = copy.deepcopy(OFFLINE)
    predictions[index].update(fields)
    return predictions


def test_sends_one_batch_and_each_instance_alone(endpoint, tmp_path: Path, caplog):
    caplog.set_level(logging.INFO)
    (tmp_path / "golden").write_text(json.dumps(GOLDEN))
    metrics = Metrics(name="metrics", uri=str(tmp_path / "out" / "metrics"))
    predict_golden(
        connect("demo", "local"),
        endpoint=ENDPOINT,
        golden_path=str(tmp_path / "golden"),
        metrics=metrics,
        table_path=str(tmp_path / "out" / "table.md"),
    )
    first, second = GOLDEN["instances"]
    assert [sent for _, sent in endpoint.requests] == [[first, second], [first], [second]]
    assert {path for path, _ in endpoint.requests} == {f"/v1/{ENDPOINT}:predict"}
    assert metrics.metadata["num_requests"] == 3
    assert metrics.metadata["max_probability_difference"] == 0
    assert 0 < metrics.metadata["latency_ms_median"] <= metrics.metadata["latency_ms_max"]
    assert json.loads((tmp_path / "out" / "metrics").read_text()) == metrics.metadata
    assert "0.900000  0           yes" in caplog.text
    assert "0.900000  0           yes" in (tmp_path / "out" / "table.md").read_text()
    assert "model version 3" in caplog.text


def test_waits_while_the_endpoint_is_unavailable(endpoint, monkeypatch, caplog):
    monkeypatch.setattr(retries, "_backoff", lambda state: 0)
    endpoint.failures = [(503, "UNAVAILABLE")] * 2
    answer = request_predictions(connect("demo", "local"), ENDPOINT, GOLDEN["instances"])
    assert answer.predictions == OFFLINE
    assert "UNAVAILABLE (503): no; attempt 2 follows" in caplog.text


@pytest.mark.parametrize(
    ("failures", "num_requests"),
    [
        ([(503, "UNAVAILABLE")] * 100, retries.MAX_ATTEMPTS),
        ([(400, "INVALID_ARGUMENT")], 1),
        ([(404, "NOT_FOUND")], 1),
    ],
    ids=["unavailable for ever", "bad instance", "no endpoint"],
)
def test_other_errors_and_the_last_unavailable_one_are_raised(
    endpoint, monkeypatch, failures, num_requests
):
    monkeypatch.setattr(retries, "_backoff", lambda state: 0)
    endpoint.failures = list(failures)
    with pytest.raises(VertexError, match=failures[0][1]):
        request_predictions(connect("demo", "local"), ENDPOINT, GOLDEN["instances"])
    assert len(endpoint.requests) == num_requests


def test_another_answer_than_offline_fails_the_step(endpoint):
    endpoint.predictions = changed(1, probabilities=[0.25, 0.75])
    with pytest.raises(ParityError, match="instance 1"):
        check_endpoint(connect("demo", "local"), ENDPOINT, GOLDEN)


def test_tiny_differences_are_measured_and_allowed():
    online = changed(1, probabilities=[0.200004, 0.799996])
    assert check_parity(online, OFFLINE, ["0", "1"]) == pytest.approx(4e-6)


def test_whole_numbers_may_come_back_as_floats():
    assert check_parity(changed(1, **{"class": 1.0}), OFFLINE, ["0", "1"]) == 0


@pytest.mark.parametrize(
    ("online", "problem"),
    [
        (
            changed(1, probabilities=[0.25, 0.75]),
            r"instance 1 \(true label 1\): the probability of class 1 is 0.75 online and 0.8 "
            "offline: the difference of 0.05 is above 1e-05",
        ),
        (changed(0, **{"class": 1}), "instance 0 .* class 1 online, 0 offline"),
        (changed(0, probabilities=[0.9]), "instance 0 .* 1 probabilities online, 2 offline"),
        (changed(0, probabilities=[float("nan"), 0.1]), "instance 0 .* is nan online"),
        (changed(0, probabilities=None), "instance 0 .* no list of probabilities"),
        (OFFLINE[:1], "2 instances were sent, 1 predictions came back"),
    ],
    ids=["probability", "class", "length", "nan", "missing", "count"],
)
def test_a_difference_is_an_error_that_names_the_worst(online, problem):
    with pytest.raises(ParityError, match=problem):
        check_parity(online, OFFLINE, ["0", "1"])
