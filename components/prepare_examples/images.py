"""What preparing images takes: their splits, and the records of a shard."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from components.prepare_examples import cifar10, mnist
from components.prepare_examples.shards import Rows, Shard


@dataclass(frozen=True)
class Images:
    """The reader of a workload's images; a new one is a module like `mnist` and an entry below."""

    split_rule: str
    splits: Callable[[Path], dict[str, Rows]]
    records: Callable[[Path, Shard], Iterator[bytes]]


IMAGES = {
    "cifar10": Images(
        split_rule=cifar10.SPLIT_RULE, splits=cifar10.splits, records=cifar10.records
    ),
    "mnist": Images(split_rule=mnist.SPLIT_RULE, splits=mnist.splits, records=mnist.records),
}
