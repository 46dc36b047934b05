"""Training examples that do not fit in memory, read in blocks that are shuffled separately.

In each epoch the stream is the examples of all shards, with the shards in a new order. It is
divided into blocks of whole batches, and each batch is drawn from its block
(`trainer.examples.batches`). So batch n is a pure function of (seed, n), and a resumed
job reads only the block that its batch is in.
"""

import hashlib
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from typing import Any

from trainer.config.train_config import TrainConfig
from trainer.errors import TrainerError
from trainer.examples.batches import Batches
from trainer.examples.decoded_rows import DecodedRows
from trainer.examples.manifest import ShardFile, SplitFiles
from trainer.examples.tables import Decoder, RecordRange, measure_example

logger = logging.getLogger(__name__)

_GB = 1e9
# The block in use, the next one, and a copy of its rows while they are concatenated.
_BLOCKS_IN_MEMORY = 3
_READ_TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class WholeTable:
    """All examples in memory."""

    table: Any

    def at(self, step: int, *, stop: int) -> Any:
        """Return the table."""
        return self.table


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The order of the training examples, and their division into blocks."""

    split: SplitFiles
    batches: Batches

    def slices(self, block: int) -> list[RecordRange]:
        """Return the slices of files that hold a block's examples, in order."""
        first, last = (
            self.batches.start(number * self.batches.steps_per_block)
            for number in (block, block + 1)
        )
        size, slices = self.split.num_examples, []
        for epoch in range(first // size, -(-last // size)):
            start = epoch * size
            for shard in self._shards(epoch):
                low, high = max(first, start), min(last, start + shard.num_examples)
                if low < high:
                    slices.append(RecordRange(shard=shard, skip=low - start, take=high - low))
                start += shard.num_examples
        return slices

    def _shards(self, epoch: int) -> list[ShardFile]:
        """Return the shards in an epoch's order, by hashes: the same with any library version."""

        def rank(number: int) -> bytes:
            return hashlib.sha256(f"{self.batches.seed} {epoch} {number}".encode()).digest()

        shards = self.split.shards
        return [shards[number] for number in sorted(range(len(shards)), key=rank)]


class BlockTables:
    """Tables of blocks: one in memory, while the next one is read in the background."""

    def __init__(self, stream: Stream, reader: Decoder | DecodedRows):
        self._stream, self._reader = stream, reader
        self._steps_per_block = stream.batches.steps_per_block
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-block")
        self._block, self._table = -1, None
        self._next: Future[Any] | None = None

    def at(self, step: int, *, stop: int) -> Any:
        """Return the table of the block of this step; the last step is before `stop`.

        Steps must be in ascending order. InputError names an unreadable record and its file.
        """
        block = step // self._steps_per_block
        if block != self._block:
            self._table = self._wait(self._next or self._read(block), block)
            self._block = block
            has_next = (block + 1) * self._steps_per_block < stop
            self._next = self._read(block + 1) if has_next else None
        return self._table

    def _read(self, block: int) -> Future[Any]:
        slices = self._stream.slices(block)
        size = sum(piece.take for piece in slices)
        return self._thread.submit(self._reader.read, slices, num_expected=size)

    def _wait(self, reading: Future[Any], block: int) -> Any:
        try:
            return reading.result(_READ_TIMEOUT_SECONDS)
        except FutureTimeoutError as error:
            paths = ", ".join(piece.shard.path for piece in self._stream.slices(block))
            raise TrainerError(
                f"reading {paths} timed out after {_READ_TIMEOUT_SECONDS:.0f} s; check the storage,"
                " or lower --cache-gb for smaller blocks"
            ) from error


Tables = WholeTable | BlockTables


def plan_stream(
    config: TrainConfig, split: SplitFiles, decoder: Decoder, *, most_steps: int | None = None
) -> Stream | None:
    """Return the blocks of the train split, of `most_steps` at most; None if it is kept in memory.

    It depends only on the flags and the examples: it is the same on all replicas and when resumed.
    """
    if not is_streamed(config, split, decoder):
        return None
    batch_bytes = measure_example(split, decoder) * config.batch_size
    fitting = int(config.cache_gb * _GB / _BLOCKS_IN_MEMORY / batch_bytes)
    whole = Batches(size=config.batch_size, num_examples=split.num_examples, seed=config.seed)
    steps = max(1, min(fitting, whole.per_epoch, most_steps or fitting))
    logger.info("reading the training examples in blocks of %d steps", steps)
    return Stream(split=split, batches=replace(whole, steps_per_block=steps))


def is_streamed(config: TrainConfig, split: SplitFiles, decoder: Decoder) -> bool:
    """Return whether a split is streamed: by --cache, or because it exceeds --cache-gb."""
    if config.cache != "auto":
        return config.cache == "stream"
    return measure_example(split, decoder) * split.num_examples > config.cache_gb * _GB
