"""Promotions and rollbacks under load: how many requests fail.

    python -m tools.soak.promotions --count 1000 --clients 64

A service serves a model to the clients, which send one request after the other, with a pause so
that they leave the machine to the promotions. Meanwhile new versions are deployed, promoted and
rolled back in turns. Prints one JSON object; the exit code is 0 if no request has failed.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from components.endpoint.deployments import deploy, moved_traffic, undeploy_idle
from components.endpoint.ensure import ensure_endpoint
from components.model_version.companions import GOLDEN_FILE, write_companion
from components.model_version.history import cause_of
from components.model_version.registry import set_default
from components.release.options import ServingOptions
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi, connect
from components.shared.vertex.labels import PROMOTED
from components.shared.vertex.resource_name import ResourceName
from pipelines.serving.releases import roll_back
from vertex_local.tests.support.service import HEADERS, container_spec, running_service

TIMEOUT_SECONDS = 60
PREDICTION = {"class": 0, "label": "a", "probabilities": [0.75, 0.25]}  # of `classes`
GOLDEN = {"instances": [{"x": 1}], "predictions": [PREDICTION], "labels": ["a"]}


@dataclass
class Clients:
    """Threads that send requests to an endpoint until they are stopped."""

    url: str
    count: int
    pause_seconds: float
    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    versions: set[str] = field(default_factory=set)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator["Clients"]:
        """Send requests for as long as the block lasts."""
        threads = [threading.Thread(target=self._send) for _ in range(self.count)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(TIMEOUT_SECONDS)

    def _send(self) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.headers.update(HEADERS)
            while not self._stopping.is_set():
                began = time.perf_counter()
                try:
                    response = session.post(self.url, json={"instances": [{}]}, timeout=60)
                    if response.ok and response.json()["predictions"] == [PREDICTION]:
                        self.versions.add(response.json()["modelVersionId"])
                    else:
                        self.failures[response.text[:200]] += 1
                except requests.RequestException as error:
                    self.failures[repr(error)[:200]] += 1
                self.seconds.append(time.perf_counter() - began)
                self._stopping.wait(self.pause_seconds)


def run(
    folder: Path, *, count: int, clients: int, pause_seconds: float, keep_previous: bool
) -> dict[str, Any]:
    """Promote and roll back `count` times in all; return the counts."""
    with running_service(folder / "vertex") as service, pytest.MonkeyPatch.context() as patch:
        patch.setenv(EMULATOR_VARIABLE, service.url.removeprefix("http://"))
        _, project, _, location = service.parent.split("/")
        api = connect(project, location)
        endpoint = ensure_endpoint(api, "tiny", run="soak")["name"]
        promote(api, endpoint, folder, keep_previous=keep_previous)
        promote(api, endpoint, folder, keep_previous=keep_previous)
        rollbacks: list[float] = []
        url = f"{service.url}/v1/{endpoint}:predict"
        with Clients(url, clients, pause_seconds).running() as sent:
            began = time.monotonic()
            for _ in range(count // 2):
                promote(api, endpoint, folder, keep_previous=keep_previous)
                started = time.monotonic()
                roll_back(api, "tiny")
                rollbacks.append(time.monotonic() - started)
            seconds = time.monotonic() - began
    return {
        "promotions": count // 2,
        "rollbacks": len(rollbacks),
        "clients": clients,
        "requests": len(sent.seconds),
        "failed": sum(sent.failures.values()),
        "failures": dict(sent.failures.most_common(3)),
        "versions_that_answered": len(sent.versions),
        "seconds": round(seconds, 1),
        "longest_request_seconds": round(max(sent.seconds), 2),
        "median_rollback_seconds": round(sorted(rollbacks)[len(rollbacks) // 2], 2),
    }


def promote(api: VertexApi, endpoint: str, folder: Path, *, keep_previous: bool) -> None:
    """Release a new version as a run does."""
    version = upload(api, folder / "artifact")
    deploy(api, endpoint, version, resources=ServingOptions().resources)
    with moved_traffic(api, endpoint, version):
        set_default(api, version, cause=cause_of(PROMOTED, "soak"))
    undeploy_idle(api, endpoint, keep=version, keep_previous=keep_previous)


def upload(api: VertexApi, folder: Path) -> ResourceName:
    """Upload a version of `tiny`."""
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(b"model")
    write_companion(str(folder), GOLDEN_FILE, GOLDEN)
    parents = [one["name"] for one in api.list_resources("models")]
    model = {
        "displayName": "tiny",
        "artifactUri": str(folder),
        "containerSpec": container_spec("classes"),
    }
    body = {"model": model, **({"parentModel": parents[0]} if parents else {})}
    answer = api.wait(api.post(f"{api.parent}/models:upload", body), timeout_seconds=60)
    return ResourceName.from_name(answer["model"]).with_version(answer["modelVersionId"])


def main() -> int:
    """Parse the command line, run and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--pause-seconds", type=float, default=0.2)
    parser.add_argument("--keep-previous", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="promotions-") as folder:
        found = run(
            Path(folder),
            count=arguments.count,
            clients=arguments.clients,
            pause_seconds=arguments.pause_seconds,
            keep_previous=arguments.keep_previous,
        )
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
