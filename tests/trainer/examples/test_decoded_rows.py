"""Decoded rows that are kept on the local disk."""

from collections import namedtuple
from io import FileIO

import numpy as np
import pytest
import tensorflow as tf

from trainer.examples import decoded_rows
from trainer.examples.decoded_rows import DecodedRows, keep_rows
from trainer.examples.manifest import read_manifest
from trainer.examples.tables import Decoder, RecordRange
from trainer.workloads import load_workload


@pytest.fixture
def decoder(monkeypatch) -> Decoder:
    """A decoder that notes the number of rows of each call in `decoded`."""
    found = Decoder(workload=load_workload("mnist"), compression="GZIP")
    object.__setattr__(found, "decoded", [])
    read = Decoder.read

    def noting(self, slices, *, num_expected, **options):
        self.decoded.append(num_expected)
        return read(self, slices, num_expected=num_expected, **options)

    monkeypatch.setattr(Decoder, "read", noting)
    return found


@pytest.fixture
def split(examples_dir):
    return read_manifest(str(examples_dir), workload="mnist").splits["train"]


def blocks_of(split, size, *, shards) -> list[list[RecordRange]]:
    """Return the slices of blocks of `size` rows of some shards, one after the other."""
    blocks, block, room = [], [], size
    for shard in shards:
        at = 0
        while at < shard.num_examples:
            take = min(room, shard.num_examples - at)
            block.append(RecordRange(shard=shard, skip=at, take=take))
            at, room = at + take, room - take
            if not room:
                blocks.append(block)
                block, room = [], size
    return [*blocks, *([block] if block else [])]


def read(reader, blocks) -> list[np.ndarray]:
    tables = [reader.read(block, num_expected=sum(s.take for s in block)) for block in blocks]
    columns = zip(*map(tf.nest.flatten, tables), strict=True)
    return [np.concatenate([tensor.numpy() for tensor in column]) for column in columns]


def test_rows_of_later_epochs_are_the_same_and_are_not_decoded(decoder, split):
    reader = keep_rows(split, decoder)
    assert isinstance(reader, DecodedRows)
    for shards, size in ((split.shards, 100), (split.shards[::-1], 70), (split.shards, 1000)):
        blocks = blocks_of(split, size, shards=shards)
        decoder.decoded.clear()
        found = read(reader, blocks)
        assert sum(decoder.decoded) == (split.num_examples if size == 100 else 0)
        expected = read(decoder, blocks)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_a_job_that_resumes_within_a_file_decodes_what_it_lacks_in_the_next_epoch(decoder, split):
    reader = keep_rows(split, decoder)
    blocks = blocks_of(split, 100, shards=split.shards)
    read(reader, blocks[2:])
    decoder.decoded.clear()
    read(reader, blocks)
    assert sum(decoder.decoded) == 200


def test_a_full_disk_is_a_warning(decoder, split, caplog):
    reader = DecodedRows(split, decoder, FileIO("/dev/full", "r+"))
    blocks = blocks_of(split, 300, shards=split.shards)
    expected = read(decoder, blocks)
    for _ in range(2):
        for one, other in zip(read(reader, blocks), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert "No space left on device" in caplog.text


@pytest.mark.parametrize("room", [2.1, 1.9], ids=["enough", "too small"])
def test_no_more_than_half_of_the_free_space_is_used(tmp_path, decoder, split, room, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    free = int(room * split.num_examples * (28 * 28 + 8))
    usage = namedtuple("usage", "free")(free)
    monkeypatch.setattr(decoded_rows.shutil, "disk_usage", lambda _: usage)
    reader = keep_rows(split, decoder)
    assert isinstance(reader, DecodedRows if room > 2 else Decoder)
    assert list(tmp_path.iterdir()) == []


def test_rows_with_texts_are_decoded_anew(split, decoder, monkeypatch):
    monkeypatch.setattr(Decoder, "row_bytes", 0)
    assert keep_rows(split, decoder) is decoder
