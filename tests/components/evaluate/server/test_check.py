"""Check of a model in its own prediction server, in every wire form."""

import base64
import json
import time
from contextlib import contextmanager

import numpy as np
import psutil
import pytest

from components.errors import StepError
from components.evaluate.server import load
from components.evaluate.server.check import (
    LARGE_BATCH,
    MAX_REQUEST_BYTES,
    golden_batches,
    wire_requests,
)
from components.evaluate.server.load import NUM_JUDGED, check_latency
from tests.support.data.untrained import export_untrained
from tests.support.processes.everything import EVERYTHING
from trainer.errors import InstanceError
from trainer.serving.http.limits import MAX_BODY_BYTES
from trainer.workloads import (
    Category,
    ImageFolder,
    Multilabel,
    Number,
    Records,
    Regression,
    Table,
    Text,
    Values,
    load_workload,
)
from trainer.workloads.description import describe, read_description
from vertex_local.tests.support.forks import forks_with
from vertex_local.tests.support.http_server import Handler, serving

pytestmark = pytest.mark.timeout(120)

IMAGES = [np.full((28, 28), 7 * number, np.uint8) for number in range(3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained model and its offline predictions."""
    folder = tmp_path_factory.mktemp("model") / "model"
    predictor = export_untrained(folder)
    instances = [{"image": image.tolist()} for image in IMAGES]
    predictions = predictor.predict(instances)
    return folder, {"instances": instances, "predictions": predictions, "labels": ["0", "1", "2"]}


def check(tmp_path, folder, golden, *, gate: str = "{}") -> tuple[int, str]:
    """Run the check in a process in which TensorFlow has not run; return exit code and output."""
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(golden))
    words = ["python", "-m", "tests.support.servers.check_server", str(folder), str(path), gate]
    process = forks_with(*EVERYTHING).start(words, log_path=tmp_path / "log")
    code = process.wait(100)
    running = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not any(str(path) in words for words in running), "the server is still running"
    return code, process.output


def test_predictions_are_as_offline_in_every_wire_form(tmp_path, model):
    code, output = check(tmp_path, *model, gate='{"max_latency_ms": 5000, "latency_clients": 4}')

    assert code == 0, output
    num_predictions = 3 * len(wire_requests(load_workload("mnist"), model[1]["instances"]))
    assert f"repeats {num_predictions + 1 + LARGE_BATCH} offline predictions" in output
    values = json.loads((tmp_path / "metrics.json").read_text())
    assert (values["num_clients"], values["num_requests"]) == (4, NUM_JUDGED)
    assert 0 < values["latency_ms_p50"] <= values["latency_ms_p99"] <= 5000
    assert values["requests_per_second"] > 0


def test_an_error_names_the_wire_form_in_one_line(tmp_path, model):
    folder, golden = model
    wrong = [{**one, "class": (one["class"] + 1) % 10} for one in golden["predictions"]]

    code, output = check(tmp_path, folder, {**golden, "predictions": wrong})

    assert code == 1
    assert "error: instances in the form 'object': instance 0" in output.splitlines()[-1]
    assert "Traceback" not in output


def test_a_server_that_does_not_start_is_an_error(tmp_path, model):
    (tmp_path / "empty").mkdir()

    code, output = check(tmp_path, tmp_path / "empty", model[1])

    assert code == 1
    assert output.splitlines()[-1].startswith("error: the prediction server")
    assert "code 1" in output.splitlines()[-1]


@contextmanager
def server(respond):
    """Serve `respond(instances)`, which returns a status and a body; yield the URL."""

    class Answering(Handler):
        protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

        def do_POST(self) -> None:
            code, body = respond(json.loads(self.body())["instances"])
            self.respond(code, json.dumps(body).encode())

    with serving(Answering) as host:
        yield f"http://{host}/predict"


def test_a_server_that_is_slower_than_the_limit_is_an_error(monkeypatch):
    monkeypatch.setattr(load, "NUM_JUDGED", 20)
    sent = []

    def respond(instances):
        sent.append(instances)
        time.sleep(0.005)
        return 200, {"predictions": [0]}

    with server(respond) as url:
        with pytest.raises(StepError, match=r"gate\.max_latency_ms is 2,"):
            check_latency(url, [1, 2], clients=2, max_latency_ms=2)
        assert len(sent) == 3 * 20
        assert check_latency(url, [1, 2], clients=2, max_latency_ms=500).p99_ms >= 5
    assert sent[-20:].count([1]) == sent[-20:].count([2]) == 10


def test_an_error_under_load_is_an_error():
    with (
        server(lambda _: (503, {"error": "busy"})) as url,
        pytest.raises(StepError, match=r"returned 503: .*busy"),
    ):
        check_latency(url, [1], clients=1, max_latency_ms=None)


def test_large_batches_fit_into_a_request():
    image = {"image": np.arange(32 * 32 * 3).reshape(32, 32, 3).astype(np.uint8).tolist()}
    golden = {"instances": [image] * 2, "predictions": [1, 2], "labels": [3, 4]}

    found = golden_batches(load_workload("cifar10"), golden)

    name, batch = list(found.items())[-1]
    assert name == f"{len(batch['instances'])} instances"
    assert len(batch["instances"]) == len(batch["predictions"]) > 100
    assert len(json.dumps(batch["instances"])) < MAX_REQUEST_BYTES
    assert batch["predictions"][:3] == [1, 2, 1]
    assert found["1 instance"]["labels"] == [3]


def test_requests_of_photos_are_as_large_as_a_server_takes():
    photos = ImageFolder((400, 400), name="photos")
    pixels = np.random.default_rng(1).integers(0, 256, (400, 400, 3)).astype(np.uint8)
    golden = {
        "instances": [photos.format_instance({"image": pixels})] * 3,
        "predictions": [*range(3)],
        "labels": [*range(3)],
    }

    batches = golden_batches(photos, golden)

    assert {"rows", "flat"}.isdisjoint(batches)  # an instance has 1.9 MB
    assert batches["png"]["labels"] == [0, 1]
    for batch in batches.values():
        assert len(json.dumps({"instances": batch["instances"]})) < MAX_BODY_BYTES


PIXELS = {"object", "rows", "flat", "base64", "png", "keyed", "example"}
COLUMNS = {"object", "nulls", "keyed", "example"}


@pytest.mark.parametrize(
    ("workload", "instance", "forms"),
    [
        ("mnist", {"image": IMAGES[1].tolist()}, PIXELS),
        ("taxi", {"trip_miles": 2.5, "company": "Blue, Inc."}, COLUMNS),
        (
            Table(
                [Number("sizes", length=2), Category("tags", separator=";"), Text("note")],
                label=Regression("y"),
            ),
            {"sizes": [1.0, None], "tags": ["a", "b"], "note": "été"},
            COLUMNS,
        ),
        (
            Records(
                {"x": Values("float32", [3]), "name": Values("string")},
                label=Multilabel("y", values=("a", "b")),
                model=len,
            ),
            {"x": [1.5, 0.0, -1.0], "name": {"b64": "/w=="}},
            COLUMNS - {"nulls"},
        ),
        (ImageFolder((2, 3)), {"image": np.arange(18).reshape(2, 3, 3).tolist()}, PIXELS),
    ],
    ids=["mnist", "taxi", "table", "records", "images"],
)
def test_all_forms_of_an_instance_mean_the_same(workload, instance, forms):
    if isinstance(workload, str):
        loaded = load_workload(workload)
    else:  # as a server knows it, without the user's code
        described = describe(workload.with_name("own", "/no/such/folder"))
        loaded = read_description(json.loads(json.dumps(described)))

    found = wire_requests(loaded, [instance])

    assert set(found) == forms
    expected = loaded.parse_instance(instance)
    for [one] in found.values():
        for name, value in loaded.parse_instance(one).items():
            np.testing.assert_array_equal(value, expected[name])
    batch = loaded.parse_instances(found["example"] * 3)
    assert {len(column) for column in batch.values()} == {3}
    first = found["object"][0]
    invalid = {field: {**first, field: {"": 0}} for field in first}  # which no feature accepts
    for field, one in {**invalid, "no_such_field": {**first, "no_such_field": 1}}.items():
        with pytest.raises(ValueError, match=field):
            loaded.parse_instance(one)
    for broken in (b"\xff" * 4000, b"\n\x03abc" * 1000):
        sent = {"b64": base64.b64encode(broken).decode()}
        with pytest.raises(
            InstanceError, match=r"instance 1: .*b64|instance 1: image has 4000 bytes"
        ):
            loaded.parse_instances([found["example"][0], sent])
