import pyarrow as pa
import pytest
import tensorflow as tf

from components.prepare_examples.tfrecords.table_encoder import encode_rows
from tests.support.data.examples import make_example

FLOATS = [0.0, -1.5, None, 3.4e38, 1e-45]
INTS = [0, -1, 127, None, 2**63 - 1, -(2**63), 128, 16_383, 16_384, 1_400_269_500]
TEXTS = ["Cash", "", None, "é" * 100, "Cash", "x" * 20_000]


@pytest.mark.parametrize("length", range(1, 20, 6))
def test_rows_are_what_tensorflow_itself_writes(length):
    rows = [
        {
            "b": FLOATS[number % len(FLOATS)],
            "c": INTS[number % len(INTS)],
            "ab": TEXTS[number % len(TEXTS)],
        }
        for number in range(length * 10)
    ]
    types = {"b": pa.float32(), "c": pa.int64(), "ab": pa.string()}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    assert encode_rows(columns).to_pylist() == [make_example(row) for row in rows]


@pytest.mark.parametrize("value", [value for value in INTS if value is not None])
def test_a_column_of_one_number(value):
    found = encode_rows({"n": pa.array([value, value], pa.int64())}).to_pylist()
    assert found == [make_example({"n": value})] * 2


def test_a_row_without_any_value_is_an_empty_example():
    (found,) = encode_rows({"n": pa.array([None], pa.int64())}).to_pylist()
    assert not tf.train.Example.FromString(found).features.feature


def test_a_table_without_rows_has_no_examples():
    types = {"b": pa.float32(), "c": pa.int64(), "ab": pa.string(), "list": pa.list_(pa.int64())}
    assert encode_rows({name: pa.array([], kind) for name, kind in types.items()}).to_pylist() == []
