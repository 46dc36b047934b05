"""TFRecords that people have: names, compression, and features of other kinds."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.support.data.cases.case import HOSTILE, Case, nothing_is_executed

train = tf.train
NUM_RECORDS = 90


def example(**features: Any) -> bytes:
    """Return an example of lists of whole numbers, floats or bytes; nothing is an empty feature."""
    return train.Example(
        features=train.Features(feature={name: _feature(v) for name, v in features.items()})
    ).SerializeToString()


def _feature(values: Sequence[Any] | None) -> Any:
    if values is None:
        return train.Feature()
    if values and isinstance(values[0], bytes):
        return train.Feature(bytes_list=train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return train.Feature(float_list=train.FloatList(value=values))
    return train.Feature(int64_list=train.Int64List(value=values))


def records_of(name: str, items: Sequence[bytes], compression: str = "") -> Callable[[Path], None]:
    """Return a function that writes records to a file of the folder `data`."""

    def write(folder: Path) -> None:
        path = folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(path), compression) as writer:
            for item in items:
                writer.write(item)

    return write


def _looks_like_gzip() -> list[bytes]:
    """Return records of which the first has a length that begins with gzip's two bytes."""
    size = 0x8B1F
    sizes = (example(x=[b"\0" * count], y=[1]) for count in range(size - 60, size))
    blob = next(item for item in sizes if len(item) == size)
    return [blob, *[example(x=[b"a"], y=[0])] * 40]


def sequence() -> bytes:
    """Return a SequenceExample."""
    lists = train.FeatureList(feature=[_feature([1.0])])
    return train.SequenceExample(
        context=train.Features(feature={"y": _feature([1])}),
        feature_lists=train.FeatureLists(feature_list={"x": lists}),
    ).SerializeToString()


HARD = [
    example(**{f"{HOSTILE}\n": [row / 4], "x\\": [b"\xff"], HOSTILE: [row % 2]})
    for row in range(NUM_RECORDS)
]
PLAIN = [example(x=[row % 7 + row / 64, 1.0], y=[row % 2]) for row in range(NUM_RECORDS)]
EMPTY = [
    example(tags=list(range(row % 5)) if row % 7 else None, x=[row / 4], y=[row % 2])
    for row in range(NUM_RECORDS)
]
FLOATS = [example(x=[struct.pack("<8f", *range(8))], y=[row % 2]) for row in range(NUM_RECORDS)]
DENSE = [example(dense=[row / 4, 1.0], y=[row % 2]) for row in range(NUM_RECORDS)]
WORDS = "--records data --label y"


def _is_whole(result: Any) -> bool:
    return result.rows["written"] == NUM_RECORDS and min(result.counts) > 0


CASES = {
    "tfx": Case(
        records_of("Split-train/data_tfrecord-00000-of-00001.gz", PLAIN, "GZIP"),
        WORDS,
        facts=_is_whole,
    ),
    "beam": Case(records_of("part-00000-of-00001", PLAIN), WORDS, facts=_is_whole),
    "gzip_without_suffix": Case(records_of("data.tfrecord", PLAIN, "GZIP"), WORDS, facts=_is_whole),
    "looks_like_gzip": Case(
        records_of("data.tfrecord", _looks_like_gzip()),
        WORDS,
        says=("x: bytes that are no text; decode them",),
        refused=True,
    ),
    "hostile_features": Case(
        records_of("data.tfrecord", HARD),
        f"--records data --label {HOSTILE}",
        facts=lambda result: nothing_is_executed() and _is_whole(result),
    ),
    "empty_features": Case(records_of("data.tfrecord", EMPTY), WORDS, facts=_is_whole),
    "floats_as_bytes": Case(
        records_of("data.tfrecord", FLOATS),
        WORDS,
        says=("x: bytes that are no text; .*decode_raw",),
        refused=True,
    ),
    "sequence_examples": Case(
        records_of("data.tfrecord", [sequence()] * 20),
        WORDS,
        says=("tf.train.SequenceExample, whose lists are not read; write tf.train.Examples",),
        refused=True,
    ),
    "feature_called_dense": Case(
        records_of("data.tfrecord", DENSE),
        WORDS,
        facts=lambda result: _is_whole(result) and len(result.values("dense")) == NUM_RECORDS,
    ),
}
