"""Readers of the workloads' images."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples.images import cifar10, mnist
from components.prepare_examples.tfrecords.image_encoder import Batch
from components.prepare_examples.tfrecords.shards import Rows, Shard


@dataclass(frozen=True)
class Images:
    """Reader of a workload's images. To add one, write a module like `mnist` and an entry below."""

    split_rule: str
    num_channels: int
    num_pixels: int
    splits: Callable[[Path], dict[str, Rows]]
    batches: Callable[[Path, Shard], Iterator[Batch]]

    @property
    def row_bytes(self) -> int:
        """The bytes of an image."""
        return self.num_channels * self.num_pixels


IMAGES = {
    "cifar10": Images(cifar10.SPLIT_RULE, 3, 1024, cifar10.splits, cifar10.batches),
    "mnist": Images(mnist.SPLIT_RULE, 1, 784, mnist.splits, mnist.batches),
}
