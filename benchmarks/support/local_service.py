"""The local service as a process, and operations of its API."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

PARENT = "v1/projects/local/locations/us-central1"
TIMEOUT_SECONDS = 120


@contextlib.contextmanager
def running_service(root: Path, *, core: str = "") -> Iterator[tuple[str, int]]:
    """Run a service, on one core or on all; yield its URL and its process ID."""
    root.mkdir()
    serve = [sys.executable, "-m", "vertex_local.cli", "serve", "--root", str(root)]
    if core:
        serve = ["taskset", "-c", core, *serve]
    with root.with_name("serve.log").open("wb") as log:
        process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait(60)


def carry_out(url: str, path: str, body: Any) -> Any:
    """Send a POST request, wait for its operation and return the response."""
    found = requests.post(f"{url}/{path}", json=body, timeout=TIMEOUT_SECONDS).json()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not found.get("done"):
        if "error" in found or time.monotonic() > deadline:
            raise RuntimeError(f"{path}: {found}")
        time.sleep(0.05)
        found = requests.get(f"{url}/v1/{found['name']}", timeout=TIMEOUT_SECONDS).json()
    if "error" in found:
        raise RuntimeError(f"{path}: {found['error']}")
    return found["response"]
