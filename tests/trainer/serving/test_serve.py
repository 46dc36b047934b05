"""The prediction server as a real process."""

import json
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.support.data.untrained import export_untrained

BLACK_PIXELS = [[0] * 28] * 28


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An untrained model."""
    folder = tmp_path_factory.mktemp("model") / "model"
    return folder, export_untrained(folder)


def request(port, path, body=None, **headers):
    """Return status and body; status 0 if no connection is possible."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        url = f"http://127.0.0.1:{port}{path}"
        sent = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(sent, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, {}


@pytest.fixture
def server(start, model, port):
    replica = start(
        "serve",
        module="trainer.serve",
        AIP_STORAGE_URI=f"file://{model[0]}",
        AIP_HTTP_HOST="127.0.0.1",
        AIP_HTTP_PORT=str(port),
        AIP_HEALTH_ROUTE="/v1/health",
        AIP_PREDICT_ROUTE="/v1/predict",
    )
    return replica, port


def wait_until_ready(replica, port):
    """Return the statuses of the health route, up to the first 200."""
    seen = []
    deadline = time.monotonic() + 60
    while not seen or seen[-1] != 200:
        assert replica.process.poll() is None, replica.log
        assert time.monotonic() < deadline, f"waited 60 s for health: {replica.log}"
        seen.append(request(port, "/v1/health")[0])
        time.sleep(0.02)
    return seen


def test_the_server_becomes_ready_predicts_as_offline_and_drains_on_sigterm(server, model):
    replica, port = server
    assert set(wait_until_ready(replica, port)) <= {0, 503, 200}
    instances = [BLACK_PIXELS, {"image": [255] * 784, "key": "white"}]
    status, body = request(port, "/v1/predict", {"instances": instances})
    assert status == 200
    for online, offline in zip(body["predictions"], model[1].predict(instances), strict=True):
        assert online.pop("probabilities") == pytest.approx(offline.pop("probabilities"), abs=1e-6)
        assert online == offline

    uneven = {"instances": [BLACK_PIXELS] * 3 + [BLACK_PIXELS[:27]]}
    cases = [
        (uneven, 400, "instance 3: image has shape (27, 28)"),
        (b"{", 400, "not JSON"),
        (b"x" * 1_500_001, 413, "1500000"),
    ]
    for sent, expected, message in cases:
        status, body = request(port, "/v1/predict", sent)
        assert (status, message in body["error"]) == (expected, True), body

    statuses = []
    batch = {"instances": [BLACK_PIXELS] * 100}
    threads = [
        threading.Thread(target=lambda: statuses.append(request(port, "/v1/predict", batch)[0]))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert statuses == [200] * 16
    replica.process.send_signal(signal.SIGTERM)
    assert replica.wait(20) == 0
    assert "Traceback" not in replica.log


def test_a_model_that_cannot_be_loaded_stops_the_server(start, port, tmp_path):
    replica = start(
        "serve",
        module="trainer.serve",
        AIP_STORAGE_URI=str(tmp_path / "none"),
        AIP_HTTP_HOST="127.0.0.1",
        AIP_HTTP_PORT=str(port),
    )
    assert replica.wait() == 1
    assert f"cannot load a model from '{tmp_path / 'none'}/" in replica.log
    assert "Traceback" not in replica.log
