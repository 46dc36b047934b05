"""Data of tests, and plugins with the fixtures that all tests share."""

import csv
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pipelines.package.image import default_image
from tests.support.processes.everything import EVERYTHING

pytest_plugins = [
    "tests.support.processes.replicas",
    "tests.support.data.trips",
    "vertex_local.tests.support.plugin",
    "vertex_local.tests.support.service",
]


def pytest_configure() -> None:
    """Tell the service's tests of our image, and of the programs that its services start for us."""
    from vertex_local.tests.support import plugin, service  # registered above

    os.environ.setdefault(plugin.IMAGE_VARIABLE, default_image())
    service.FORKED[1:] = [(*service.FORKED[0], "components.teardown.ending"), EVERYTHING]


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


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
