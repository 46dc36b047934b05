"""Labels as stored in examples, and as the train step gets them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trainer.runtime.lazy import tf
from trainer.workloads.declarations.labels import Binary, Classes, Label, Multilabel, Regression
from trainer.workloads.declarations.written import plain_text
from trainer.workloads.encoding.lookups import FIRST, number_terms

# Labels of one example that classes are learnt from.
_MOST_LABELS = 100


def is_stored_as_integer(values: Sequence[Any]) -> bool:
    """Return whether classes are stored as int64: whole numbers are, all others are texts."""
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def label_spec(label: Label, classes: Sequence[Any]) -> Any:
    """Return the specification of a label for tf.io.parse_example.

    `classes` are those that were learnt, if the label declares none.
    """
    if isinstance(label, Regression):
        return tf.io.FixedLenFeature([], tf.float32, float("nan"))
    if isinstance(label, Multilabel):
        return tf.io.RaggedFeature(tf.string)
    values = _values(label, classes)
    if isinstance(label, Binary) or (values and is_stored_as_integer(values)):
        return tf.io.FixedLenFeature([], tf.int64, -1)
    return tf.io.FixedLenFeature([], tf.string, "")


def as_stored(label: Label) -> Label:
    """Return the label of a table with its values as examples store them: true, not True."""
    if not isinstance(label, Classes | Multilabel) or is_stored_as_integer(label.values):
        return label
    return replace(label, values=tuple(plain_text(str(value)) for value in label.values))


def number_labels(label: Label, raw: Any, classes: Sequence[Any]) -> Any:
    """Return labels as described in Workload.parse, from the stored values."""
    values = _values(label, classes)
    if isinstance(label, Regression | Binary):
        return raw
    if isinstance(label, Multilabel):
        numbers = number_terms(raw.values, vocabularies=[list(map(str, values))]) - FIRST
        one_hot = tf.one_hot(numbers, len(values))
        counts = tf.math.unsorted_segment_sum(one_hot, raw.value_rowids(), raw.nrows())
        return tf.minimum(counts, 1.0)
    if not values:
        return tf.zeros(tf.shape(raw), tf.int64)
    if not is_stored_as_integer(values):
        numbers = number_terms(raw, vocabularies=[list(map(str, values))]) - FIRST
        return tf.cast(tf.maximum(numbers, -1), tf.int64)
    matches = raw[:, tf.newaxis] == tf.constant(list(values), tf.int64)
    return tf.where(tf.reduce_any(matches, axis=1), tf.argmax(matches, axis=1), -1)


def dense_labels(raw: Any) -> Any:
    """Return the texts of the labels of each example, padded with empty ones, to learn classes."""
    if not isinstance(raw, tf.RaggedTensor):
        return raw
    return raw.to_tensor(default_value="", shape=[None, _MOST_LABELS])


def _values(label: Label, classes: Sequence[Any]) -> Sequence[Any]:
    if isinstance(label, Classes | Multilabel):
        return label.values or classes
    return classes
