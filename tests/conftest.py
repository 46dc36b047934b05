"""Fixtures that every kind of test may use."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


@pytest.fixture
def tiny_mnist(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small MNIST of noise, which a class brightens in its own row; answers its folder."""

    def write(*, num_train: int = 60, num_test: int = 20) -> Path:
        folder = tmp_path / "tiny-mnist"
        folder.mkdir(exist_ok=True)
        for part, count in (("train", num_train), ("t10k", num_test)):
            labels = np.arange(count) % 10
            images = np.random.default_rng(count).integers(0, 40, size=(count, 28, 28))
            images[np.arange(count), 2 * labels + 4] = 255
            write_idx(folder / f"{part}-images-idx3-ubyte", images)
            write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
        return folder

    return write


@pytest.fixture
def tiny_cifar10(tmp_path: Path) -> Callable[..., Path]:
    """Writes five small CIFAR-10 batches of noise and a test batch; answers their folder."""

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
