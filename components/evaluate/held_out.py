"""Single test examples, as pixels: for golden predictions and for pictures."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IMAGE_SHAPES: Mapping[str, tuple[int, ...]] = {"mnist": (28, 28)}
BATCH_SIZE = 500


@dataclass(frozen=True)
class Example:
    """One test example: its place in the split, its pixels as unsigned bytes, its class."""

    index: int
    image: "NDArray[np.uint8]"
    label: int

    @property
    def instance(self) -> dict[str, Any]:
        """The example as it is sent to an endpoint."""
        return {"image": self.image.tolist()}


def read_test_examples(examples_dir: str | Path, workload: str) -> Iterator[Example]:
    """Yields the test split in order, reading no more of it than is taken.

    Raises:
        ValueError: the workload's examples are not images of a known shape.
    """
    if workload not in IMAGE_SHAPES:
        known = ", ".join(sorted(IMAGE_SHAPES))
        raise ValueError(f"workload is {workload!r}; images are known of: {known}")
    manifest = json.loads(Path(examples_dir, "manifest.json").read_text())
    shards = manifest["splits"]["test"]["shards"]
    files = [str(Path(examples_dir, shard["file"])) for shard in shards]
    counter = itertools.count()
    for images, labels in _batches(files, IMAGE_SHAPES[workload]):
        for image, label in zip(images, labels, strict=True):
            yield Example(index=next(counter), image=image, label=int(label))


def _batches(
    files: list[str], shape: tuple[int, ...]
) -> "Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]":
    import numpy as np
    import tensorflow as tf

    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    for records in tf.data.TFRecordDataset(files, compression_type="GZIP").batch(BATCH_SIZE):
        parsed = tf.io.parse_example(records, features)
        pixels = np.frombuffer(b"".join(parsed["image"].numpy()), np.uint8)
        yield pixels.reshape(-1, *shape), parsed["label"].numpy()
