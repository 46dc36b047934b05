"""Rows of a declared table, and the table with what it learns from them."""

from datetime import datetime

from tests.support.data.examples import make_example
from trainer.runtime.tensorflow_logs import import_tensorflow
from trainer.workloads import Category, Number, Text, TimePart, Timestamp

import_tensorflow()
import tensorflow as tf  # noqa: E402

NOON = int((datetime(2024, 2, 29, 12, 30) - datetime(1970, 1, 1)).total_seconds())
FEATURES = [
    Number("age", low=0, high=120),
    Number("price", is_logarithmic=True, buckets=4),
    Number("vector", length=3),
    Category("plan", min_count=1),
    Category("color", values=("red", "green")),
    Category("zip", hashed=50),
    Category("rooms", low=-2, high=5),
    Category("tags", separator="|", min_count=1, max_length=3),
    Text("note", min_count=1, max_length=4),
    Timestamp("at", parts=("month", "hour", "year")),
    Timestamp("seen", is_used=False),
    TimePart("weekday", of="seen", part="weekday", low=1, high=7),
]
ROWS = [
    {
        "age": 30.0,
        "price": 5.0,
        "vector": [1.0, 2.0, 3.0],
        "plan": "basic",
        "color": "green",
        "zip": "8001",
        "rooms": -1,
        "tags": ["a", "b", "a", "c"],
        "note": "Don't STOP, été!",
        "at": NOON,
        "weekday": 5,
    },
    {"age": 50.0, "price": 20.0, "plan": "pro", "tags": ["b"], "note": "stop", "at": 0},
    {"color": "blue", "rooms": 9, "note": "", "tags": []},
]


def adapted(table, rows=ROWS):
    examples = tf.constant([make_example(row) for row in rows])
    columns, _ = table.parse(examples)
    return table.adapt({name: column.numpy() for name, column in columns.items()}), examples
