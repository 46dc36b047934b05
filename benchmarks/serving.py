"""Availability and latency of serving: failed requests and response times under disturbances.

Clients send requests to an endpoint of the local service continuously while the deployed version is
replaced, and while the prediction server is killed. Then the latency of a prediction through the
endpoint is compared with one sent to the prediction server directly, and that of a GET of the API
with stuck predictions, and with half-open connections, with one without. The model is
`vertex_local/tests/support/tiny_server.py`.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import requests

from benchmarks.support.clusters import scratch
from benchmarks.support.report import report
from vertex_local import testing
from vertex_local.testing import PARENT, RunningService
from vertex_local.tests.support.seen import host_pid

SERVER = Path(__file__).parents[1] / "vertex_local" / "tests" / "support" / "tiny_server.py"
REQUEST: Any = {"instances": [21]}
TIMEOUT_SECONDS = 120
NUM_CLIENTS, NUM_TIMED, NUM_STUCK, NUM_HALF_OPEN = 4, 200, 40, 1200


def main() -> None:
    """Count failed requests, and measure latencies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exchanges", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--kills", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--slow", action="store_true", help="servers take 3 s to start")
    arguments = parser.parse_args()
    with scratch() as folder, testing.running(root=folder / "vertex") as service:
        model = _upload(service, folder, "slow" if arguments.slow else "fast")
        endpoint = service.do("POST", "endpoints", {"displayName": "e"})["name"]
        predict = f"{service.url}/v1/{endpoint}:predict"
        deployed = _deploy(service, endpoint, model, {"0": 100})
        with _clients(predict, f"{arguments.exchanges} exchanges of the version"):
            for _ in range(arguments.exchanges):
                deployed = _exchange(service, endpoint, model, deployed)
        with _clients(predict, f"{arguments.kills} kills of the prediction server"):
            for _ in range(arguments.kills):
                pid = _pid(predict)
                time.sleep(1)
                os.kill(pid, signal.SIGKILL)
        pid = _pid(predict)
        _time_predictions(predict, pid)
        _time_api(service.url, predict, pid)


def _upload(service: RunningService, folder: Path, argument: str) -> str:
    (folder / "model").mkdir()
    container = {"imageUri": "none", "command": ["python", str(SERVER)], "args": [argument]}
    uri = str(folder / "model")
    model = {"displayName": "tiny", "containerSpec": container, "artifactUri": uri}
    return str(service.do("POST", "models:upload", {"model": model})["model"])


def _deploy(service: RunningService, endpoint: str, model: str, split: dict[str, int]) -> str:
    resources = {"machineSpec": {"machineType": "n1-standard-2"}, "minReplicaCount": 1}
    deployed = {"model": model, "dedicatedResources": resources}
    body = {"deployedModel": deployed, "trafficSplit": split}
    return str(service.do("POST", f"/v1/{endpoint}:deployModel", body)["deployedModel"]["id"])


def _exchange(service: RunningService, endpoint: str, model: str, old: str) -> str:
    """Deploy without traffic, move the traffic, undeploy the old model; return the new one's id."""
    new = _deploy(service, endpoint, model, {"0": 0, old: 100})
    time.sleep(0.2)
    mask, split = {"updateMask": "trafficSplit"}, {"trafficSplit": {new: 100, old: 0}}
    address = f"{service.url}/v1/{endpoint}"
    requests.patch(address, params=mask, json=split, timeout=TIMEOUT_SECONDS).raise_for_status()
    service.do("POST", f"/v1/{endpoint}:undeployModel", {"deployedModelId": old})
    return new


@contextlib.contextmanager
def _clients(predict: str, name: str) -> Iterator[None]:
    """Send requests continuously; write the number of requests and of failed ones to stderr."""
    stop = threading.Event()
    codes: list[int | str] = []

    def send_requests() -> None:
        while not stop.is_set():
            try:
                codes.append(requests.post(predict, json=REQUEST, timeout=90).status_code)
            except requests.RequestException as error:
                codes.append(repr(error))

    threads = [threading.Thread(target=send_requests) for _ in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    failed = [code for code in codes if code != requests.codes.ok]
    sys.stderr.write(f"{name}: {len(codes)} requests, {len(failed)} failed {failed[:3] or ''}\n")


def _pid(predict: str) -> int:
    response = requests.post(predict, json=REQUEST, timeout=TIMEOUT_SECONDS).json()
    return host_pid(response["predictions"][0]["pid"])


def _time_predictions(predict: str, pid: int) -> None:
    environ = dict(
        item.split("=", 1) for item in Path(f"/proc/{pid}/environ").read_text().split("\0") if item
    )
    direct = f"http://127.0.0.1:{environ['AIP_HTTP_PORT']}{environ['AIP_PREDICT_ROUTE']}"

    def sender(url: str) -> Callable[[], requests.Response]:
        return lambda: requests.post(url, json=REQUEST, timeout=TIMEOUT_SECONDS)

    ours, theirs = (_median_and_worst(sender(url))[0] for url in (predict, direct))
    report("a prediction", ours=ours, theirs=theirs, unit="ms", lower_is_better=True)


def _time_api(url: str, predict: str, pid: int) -> None:
    def get() -> requests.Response:
        return requests.get(f"{url}/v1/{PARENT}/models", timeout=TIMEOUT_SECONDS)

    quiet = _median_and_worst(get)
    body = json.dumps(REQUEST).encode()
    path = predict.removeprefix(url)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    os.kill(pid, signal.SIGSTOP)
    try:
        with _connections(url, NUM_STUCK, whole):
            _report_worst(f"a GET beside {NUM_STUCK} stuck predictions", get, quiet)
    finally:
        os.kill(pid, signal.SIGCONT)
    with _connections(url, NUM_HALF_OPEN, head):
        _report_worst(f"a GET beside {NUM_HALF_OPEN} half-open connections", get, quiet)


@contextlib.contextmanager
def _connections(url: str, count: int, data: bytes) -> Iterator[None]:
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(address, timeout=60)).sendall(data)
        time.sleep(1)
        yield


def _report_worst(
    name: str, get: Callable[[], requests.Response], quiet: tuple[float, float]
) -> None:
    median, worst = _median_and_worst(get)
    sys.stderr.write(f"{name}: median {median:.1f} ms, worst {worst:.1f} ms of {NUM_TIMED}\n")
    report(name, ours=median, theirs=quiet[0], unit="ms", lower_is_better=True)


def _median_and_worst(send: Callable[[], requests.Response]) -> tuple[float, float]:
    """Return the median and the maximum milliseconds of requests, each on a new connection."""
    times = []
    for _ in range(NUM_TIMED):
        began = time.perf_counter()
        send().raise_for_status()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times), max(times)


if __name__ == "__main__":
    main()
