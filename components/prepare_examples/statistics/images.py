"""Statistics of images: counts of classes, and mean and standard deviation of pixels."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from components.prepare_examples.statistics.numbers import Numbers
from components.prepare_examples.tfrecords.image_encoder import Batch
from trainer import Json

MAX_ROWS = 256


@dataclass
class ImageStatistics:
    """Sums over the pixels of each channel, as integers, so that merging is exact in any order."""

    num_channels: int
    num_pixels: int = 0
    labels: Numbers = field(default_factory=lambda: Numbers("INT"))

    def __post_init__(self) -> None:
        self.sums, self.squares = np.zeros((2, self.num_channels), np.int64)

    @property
    def num_images(self) -> int:
        """The number of images."""
        return int(self.labels.bins()[1].sum())

    def add(self, batch: Batch) -> None:
        """Count a batch of images."""
        images, labels = batch
        num_rows = _num_rows(images.shape[2])
        self.num_pixels += len(images) * images.shape[2]
        for channel in range(self.num_channels):  # one fits in the CPU's cache, all do not
            values = images[:, channel].astype(np.float32).reshape(num_rows, -1)
            squares = np.einsum("rp,rp->p", values, values)
            self.sums[channel] += int(values.sum(axis=0).sum(dtype=np.float64))
            self.squares[channel] += int(squares.sum(dtype=np.float64))
        self.labels.add(pa.array(labels.astype(np.int64)))

    def merge(self, other: "ImageStatistics") -> None:
        """Add the counts of another instance."""
        self.num_pixels += other.num_pixels
        self.sums += other.sums
        self.squares += other.squares
        self.labels.merge(other.labels)

    def summary(self) -> Json:
        """Return a split of statistics.json."""
        num_pixels = max(self.num_pixels, 1)  # if all images are bad
        means = self.sums / num_pixels
        variances = np.maximum(self.squares / num_pixels - means * means, 0)
        label = self.labels.summary()
        return {
            "num_examples": label["num_present"],
            "features": {"label": label},
            "pixels": {"mean": means.tolist(), "std": np.sqrt(variances).tolist()},
        }


def _num_rows(num_pixels: int) -> int:
    """Return in how many rows to arrange pixels to sum them column by column.

    At most 256, so that squares sum to less than 2^24, up to which float32 is exact. It is several
    times as fast as integers, and as sums along the rows.
    """
    return next(rows for rows in range(MAX_ROWS, 0, -1) if num_pixels % rows == 0)
