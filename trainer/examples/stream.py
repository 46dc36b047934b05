"""Training examples that do not fit in memory: read in blocks, each shuffled by itself.

The stream of training examples is, for each epoch, the shards in an order of their own, and in each
shard its examples one after the other. It is cut into blocks of whole batches. A batch is drawn
from its block (`trainer.examples.tables.batch_rows`), so batch number n stays a pure function of
(seed, n): whoever resumes reads the block that it is in, and no other.
"""

import hashlib
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, Protocol

from trainer.config.train_config import TrainConfig
from trainer.errors import TrainerError
from trainer.examples.manifest import Shard, Split
from trainer.examples.tables import Decoder, Slice, measure_example

logger = logging.getLogger(__name__)

_GB = 1e9
# A block in use, one being read, and that one's rows again for the moment in which they are joined.
_BLOCKS_IN_MEMORY = 3
_READ_TIMEOUT_SECONDS = 900.0


class Tables(Protocol):
    """Where the steps of a replica find their examples."""

    steps_per_block: int

    def at(self, step: int, *, stop: int) -> Any:
        """Returns the table of the block with this step; steps end before `stop`."""


class WholeTable:
    """All examples in memory."""

    steps_per_block = 0

    def __init__(self, table: Any):
        self._table = table

    def at(self, step: int, *, stop: int) -> Any:
        """Returns the table."""
        del step, stop
        return self._table


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How the training examples follow one another, and are cut into blocks."""

    split: Split
    batch_size: int
    steps_per_block: int
    seed: int

    @property
    def block_size(self) -> int:
        """The number of examples in a block."""
        return self.steps_per_block * self.batch_size

    def slices(self, block: int) -> list[Slice]:
        """Returns where the examples of a block are, in their order."""
        first, size = block * self.block_size, self.split.num_examples
        last, found = first + self.block_size, []
        for epoch in range(first // size, -(-last // size)):
            start = epoch * size
            for shard in self._shards(epoch):
                low, high = max(first, start), min(last, start + shard.num_examples)
                if low < high:
                    found.append(Slice(shard=shard, skip=low - start, take=high - low))
                start += shard.num_examples
        return found

    def _shards(self, epoch: int) -> list[Shard]:
        """Returns the shards in an epoch's order: the same in any version of anything."""

        def rank(number: int) -> bytes:
            return hashlib.sha256(f"{self.seed} {epoch} {number}".encode()).digest()

        shards = self.split.shards
        return [shards[number] for number in sorted(range(len(shards)), key=rank)]


class BlockTables:
    """One block in memory, while the next one is read in the background."""

    def __init__(self, stream: Stream, decoder: Decoder):
        self._stream, self._decoder = stream, decoder
        self.steps_per_block = stream.steps_per_block
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-block")
        self._block, self._table = -1, None
        self._next: Future[Any] | None = None

    def at(self, step: int, *, stop: int) -> Any:
        """Returns the table of the block with this step, which follows the last one asked for.

        Raises:
            InputError: names the file and the record that cannot be read.
        """
        block = step // self.steps_per_block
        if block != self._block:
            self._table = self._wait(self._next or self._read(block), block)
            self._block = block
            has_next = (block + 1) * self.steps_per_block < stop
            self._next = self._read(block + 1) if has_next else None
        return self._table

    def _read(self, block: int) -> Future[Any]:
        slices = self._stream.slices(block)
        size = self._stream.block_size
        return self._reader.submit(self._decoder.read, slices, num_expected=size)

    def _wait(self, reading: Future[Any], block: int) -> Any:
        try:
            return reading.result(_READ_TIMEOUT_SECONDS)
        except FutureTimeoutError as error:
            paths = ", ".join(part.shard.path for part in self._stream.slices(block))
            raise TrainerError(
                f"waited {_READ_TIMEOUT_SECONDS:.0f} s for the examples of {paths}: is the storage"
                " there? A smaller --cache-gb makes smaller blocks"
            ) from error


def plan_blocks(
    config: TrainConfig, split: Split, decoder: Decoder, *, most_steps: int | None = None
) -> int:
    """Returns the steps of a block of the train split; 0 if it is to be in memory.

    It follows from the flags and the examples alone: the same on every replica, now and resumed.
    """
    if not is_streamed(config, split, decoder):
        return 0
    batch_bytes = measure_example(split, decoder) * config.batch_size
    fitting = int(config.cache_gb * _GB / _BLOCKS_IN_MEMORY / batch_bytes)
    steps_per_epoch = -(-split.num_examples // config.batch_size)
    steps = max(1, min(fitting, steps_per_epoch, most_steps or fitting))
    logger.info("the training examples are read in blocks of %d steps", steps)
    return steps


def is_streamed(config: TrainConfig, split: Split, decoder: Decoder) -> bool:
    """Returns whether a split is too large for memory, or is to be treated as if it were."""
    if config.cache != "auto":
        return config.cache == "stream"
    return measure_example(split, decoder) * split.num_examples > config.cache_gb * _GB
