"""Markers, the temporary folder of the session, and fixtures that all tests share."""

import csv
import ctypes
import gc
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import tracemalloc  # noqa: F401  pytest's hook for objects left open fails while it is being imported
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.processes import seen
from tests.support.processes.docker_command import docker
from vertex_local.machine.linux import PR_SET_CHILD_SUBREAPER

pytest_plugins = [
    "tests.support.processes.replicas",
    "tests.support.servers.service",
    "tests.support.data.trips",
]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare `-m fast` the imports of files that have no fast test, two thirds of all imports."""
    if config.option.markexpr != "fast" or collection_path.suffix != ".py":
        return None
    return True if "mark.fast" not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Do not look for garbage among imported modules: a fifth of the time that collection takes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its cost, and put the files with the longest tests first.

    At the end, xdist then has short tests with which to keep all its workers busy.
    """
    ranks: dict[Path, int] = {}
    for item in items:
        if "container_image" in getattr(item, "fixturenames", ()):
            item.add_marker("docker")
        elif not item.get_closest_marker("fast"):
            item.add_marker("processes")
        is_fast = item.get_closest_marker("fast") is not None
        rank = 0 if item.path.parent.name == "whole_runs" else 1 + is_fast
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])  # stable: a file's tests stay together


def pytest_configure(config: pytest.Config) -> None:
    """Create a folder for temporary files of the session; it is removed at the end."""
    if hasattr(config, "workerinput"):
        return  # a worker of xdist uses the folder of the process that started it
    folder = tempfile.mkdtemp(prefix="trainyard-tests-")
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def no_process_left() -> Iterator[None]:
    """Fail the last test if a process that one of the tests started still runs."""
    temp_dir = tempfile.gettempdir()
    yield
    seen.await_end_of_tests(temp_dir)


@pytest.fixture(autouse=True)
def no_subreaper() -> None:
    """Let init reap the orphans of a killed service.

    A group of processes that an earlier test started made this process a subreaper, which would get
    the orphans and not reap them.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(autouse=True)
def no_service_left_in_environment() -> Iterator[None]:
    """Fail a test that leaves a service's address in the environment."""
    name = "VERTEX_EMULATOR_HOST"
    before = os.environ.get(name)  # a module may set it for all its tests
    yield
    left = os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before
    assert left == before, f"{name}={left} is left"


@pytest.fixture
def temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder for temporary files of this process and its children."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Listen on a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


@pytest.fixture(scope="session")
def container_image() -> str:
    """Return the image of this source; skip the test if it cannot be run."""
    from pipelines.package.image import default_image

    image = default_image()
    if not shutil.which("docker"):
        pytest.skip("`docker` is not on PATH")
    try:
        docker("version")
    except subprocess.CalledProcessError:
        pytest.skip("no Docker engine responds")
    try:
        docker("image", "inspect", "--", image)
    except subprocess.CalledProcessError:
        pytest.skip(f"the image of this source, {image}, does not exist: make image")
    return image


@pytest.fixture
def left_over() -> Callable[[Path], list[str]]:
    """Return the containers and networks that exist for a service's root folder."""

    def names(root: Path) -> list[str]:
        label = ["--filter", f"label=vertex-local.root={root.resolve()}"]
        containers = docker("ps", "--all", *label, "--format", "{{.Names}}")
        networks = docker("network", "ls", *label, "--format", "network {{.Name}}")
        return containers.splitlines() + networks.splitlines()

    return names


def write_mnist(folder: Path, *, num_train: int = 60, num_test: int = 20) -> Path:
    """Write a small MNIST of noise, each class with a bright row of its own; return its folder."""
    folder.mkdir(exist_ok=True)
    for part, count in (("train", num_train), ("t10k", num_test)):
        labels = np.arange(count) % 10
        images = np.random.default_rng(count).integers(0, 40, size=(count, 28, 28))
        images[np.arange(count), 2 * labels + 4] = 255
        write_idx(folder / f"{part}-images-idx3-ubyte", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
    return folder


@pytest.fixture
def tiny_mnist(tmp_path: Path) -> Callable[..., Path]:
    """Call `write_mnist` with a folder of the test."""
    return partial(write_mnist, tmp_path / "tiny-mnist")


@pytest.fixture
def tiny_cifar10(tmp_path: Path) -> Callable[..., Path]:
    """Write five small CIFAR-10 batches of noise and a test batch; return their folder."""

    def write(*, num_batch: int = 20, num_test: int = 10) -> Path:
        folder = tmp_path / "tiny-cifar10"
        folder.mkdir(exist_ok=True)
        random = np.random.default_rng(5)
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
            count = num_test if name == "test_batch" else num_batch
            records = random.integers(0, 256, (count, 3073), np.uint8)
            records[:, 0] = np.arange(count) % 10
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        return folder

    return write


@pytest.fixture
def taxi_rows() -> Callable[..., list[dict[str, str]]]:
    """Make up trips: every third has a big tip, every fifth has no company."""

    def make(count: int = 200) -> list[dict[str, str]]:
        rows = []
        for number in range(count):
            start = 1_400_000_400 + 900 * number
            row = {
                "pickup_community_area": "8",
                "fare": str(10 + number % 7),
                "trip_start_month": "5",
                "trip_start_hour": "17",
                "trip_start_day": "3",
                "trip_start_timestamp": str(start),
                "pickup_latitude": "41.9",
                "pickup_longitude": "-87.6",
                "dropoff_latitude": "41.8",
                "dropoff_longitude": "-87.7",
                "trip_miles": str(1.5 + number % 4),
                "pickup_census_tract": "",
                "dropoff_census_tract": "17031081700",
                "payment_type": "Cash",
                "company": "" if number % 5 == 0 else "Blue, Inc.",
                "trip_seconds": str(300 + number),
                "dropoff_community_area": "6",
                "tips": "9" if number % 3 == 0 else "0",
            }
            rows.append(row)
        return rows

    return make


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as CSV; return the file."""

    def write(rows: list[dict[str, str]], name: str = "trips.csv") -> Path:
        path = tmp_path / name
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write
