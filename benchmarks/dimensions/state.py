"""Finished runs and versions of a model, which a state folder gathers.

Commands on runs include the start and the end of the service, as in every day's use.
"""

import os
import sys
from functools import partial
from pathlib import Path

import psutil
import requests
import yaml

from benchmarks.support.finished_runs import MODEL, PARENT, fill
from benchmarks.support.growth import Cost, Dimension, cost_of
from components.shared.vertex.api import VertexApi, connect
from pipelines.config.built_in import RUNS
from pipelines.package.compile import compile_pipeline
from pipelines.places.local_service import PRELOAD_VARIABLE, local_service
from pipelines.places.target import DEFAULT_LOCATION, LOCAL_PROJECT
from vertex_local.client import service_pid

TRAINYARD = [sys.executable, "-m", "pipelines.cli"]
NUM_UPLOADS, NUM_GETS, NUM_PAGES, NUM_SCHEDULES = 40, 400, 40, 30
PLACE = f"{LOCAL_PROJECT}/{DEFAULT_LOCATION}"
MARKED = "&".join(f"run{n}={PARENT}/pipelineJobs/run-{n}" for n in range(8))
# Pages of the console that read runs, all of them or some.
PAGES = {
    "newest": "/runs",
    "oldest": "/runs?page=99999",
    "by metric": "/runs?sort=value+desc",
    "found": "/runs?q=run-1+mnist&outcome=promoted",
    "with settings": "/runs?show=train.epochs",
    "one": f"/runs/{PLACE}/run-1",
    "compared": f"/compare?{MARKED}",
    "schedules": "/schedules",
}
IMAGE = "r.example/trainyard:src-0123456789ab"


def measure_runs(size: int, folder: Path) -> dict[str, Cost]:
    """Return the costs of commands in a folder with so many finished runs."""
    os.environ[PRELOAD_VARIABLE] = "json"  # the import of TensorFlow costs more than all else
    spec = yaml.safe_load(compile_pipeline(IMAGE, config=RUNS[MODEL]()))
    fill(folder / ".trainyard", spec=spec, num_runs=size)
    commands = {
        "models list": ["models", "list"],
        "runs list": ["runs", "list", "--limit", "20"],
        "prune": ["prune", "--max-gb", "0"],
    }
    return {
        part: cost_of([*TRAINYARD, *command], folder=folder) for part, command in commands.items()
    }


def measure_pages(size: int, folder: Path) -> dict[str, Cost]:
    """Return the CPU seconds of the service for `NUM_PAGES` of the console, with so many runs."""
    os.environ[PRELOAD_VARIABLE] = "json"
    spec = yaml.safe_load(compile_pipeline(IMAGE, config=RUNS[MODEL]()))
    fill(folder / ".trainyard", spec=spec, num_runs=size, num_schedules=NUM_SCHEDULES)
    root = folder / ".trainyard" / "vertex"
    with local_service(root) as service:
        process = psutil.Process(service_pid(root))

        def load(path: str) -> None:
            address = f"http://{service.host}{path}"
            headers = {"Authorization": f"Bearer {service.token}"}
            requests.get(address, headers=headers, timeout=60).raise_for_status()

        load("/runs")  # reads the templates
        return {
            part: _cost(process, NUM_PAGES, partial(load, path)) for part, path in PAGES.items()
        }


def measure_versions(size: int, folder: Path) -> dict[str, Cost]:
    """Return the CPU seconds of the service for requests to a model of so many versions."""
    os.environ[PRELOAD_VARIABLE] = "json"
    fill(folder / ".trainyard", spec={}, num_versions=size)
    root = folder / ".trainyard" / "vertex"
    with local_service(root):
        api, process = connect(LOCAL_PROJECT, DEFAULT_LOCATION), psutil.Process(service_pid(root))
        name = f"{api.parent}/models/{MODEL}"
        version = {"displayName": MODEL, "containerSpec": {"imageUri": IMAGE}}
        upload = {"parentModel": name, "model": version}
        return {
            "get": _cost(process, NUM_GETS, lambda: api.get(name)),
            "upload": _cost(process, NUM_UPLOADS, lambda: _upload(api, upload)),
        }


def _upload(api: VertexApi, request: dict) -> None:
    api.wait(
        api.post(f"{api.parent}/models:upload", request, find=lambda: None), timeout_seconds=60
    )


def _cost(process: psutil.Process, times: int, send) -> Cost:
    before = sum(process.cpu_times()[:2])
    for _ in range(times):
        send()
    return Cost(sum(process.cpu_times()[:2]) - before, process.memory_full_info().pss / 1e6)


FINISHED_RUNS = Dimension(
    name="finished runs",
    sizes=(100, 1_000),
    full_sizes=(10, 10_000),
    measure=measure_runs,
    constant=("models list", "runs list"),
)
PAGES_OF_RUNS = Dimension(
    name="pages of runs",
    sizes=(100, 1_000),
    full_sizes=(100, 10_000),
    measure=measure_pages,
    constant=("one", "compared", "schedules"),
)
VERSIONS = Dimension(
    name="versions",
    sizes=(100, 1_000),
    full_sizes=(100, 1_000),
    measure=measure_versions,
    constant=("get", "upload"),
)
