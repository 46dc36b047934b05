"""Search for the record that a workload cannot parse, after reading has failed."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError

from trainer.errors import InputError, TextError, first_line
from trainer.examples.manifest import ShardFile

_BATCH_SIZE = 1024
# TensorFlow's message may quote the record; if that is not UTF-8, the error becomes another one.
RECORD_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)


def find_bad_record(
    shards: Iterable[ShardFile], compression: str, decode: Callable[[tf.Tensor], Any]
) -> InputError | None:
    """Return an error for the first record that `decode` rejects; None if there is none."""
    for shard in shards:
        records = tf.data.TFRecordDataset(shard.path, compression_type=compression)
        for number, batch in enumerate(records.take(shard.num_examples).batch(_BATCH_SIZE)):
            if _decode_error(decode, batch) is None:
                continue
            for index, record in enumerate(batch):
                if error := _decode_error(decode, record[tf.newaxis]):
                    return InputError(
                        f"{shard.path}, record {number * _BATCH_SIZE + index} (the first is 0): "
                        f"{_describe(record.numpy(), error)}; prepare the examples again"
                    )
    return None


def find_text(shards: Iterable[ShardFile], compression: str, error: TextError) -> InputError:
    """Return an error for the first record with this text."""
    for shard in shards:
        records = tf.data.TFRecordDataset(shard.path, compression_type=compression)
        for number, record in enumerate(records.take(shard.num_examples).as_numpy_iterator()):
            feature = tf.train.Example.FromString(record).features.feature[error.feature]
            if error.value in feature.bytes_list.value:
                return InputError(f"{shard.path}, record {number} (the first is 0): {error}")
    return error


def _decode_error(decode: Callable[[tf.Tensor], Any], records: tf.Tensor) -> Exception | None:
    try:
        decode(records)
    except RECORD_ERRORS as error:
        return error
    return None


def _describe(record: bytes, error: Exception) -> str:
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return f"its {len(record)} bytes are not a tf.train.Example"
    if not features:
        return f"its {len(record)} bytes are a tf.train.Example without features"
    contents = ", ".join(f"{name}: {_shape(features[name])}" for name in sorted(features))
    return f"{first_line(error).partition(', value:')[0]} (it holds {contents})"


def _shape(feature: tf.train.Feature) -> str:
    kind = feature.WhichOneof("kind")
    values: Sequence[Any] = getattr(feature, kind).value if kind else ()
    if len(values) != 1:
        return f"{len(values)} values"
    return f"{len(values[0])} bytes" if kind == "bytes_list" else str(values[0])
