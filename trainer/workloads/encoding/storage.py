"""The columns of a table as stored in examples, and as sent in prediction requests."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainer.runtime.lazy import tf
from trainer.workloads.base import Features
from trainer.workloads.declarations.features import (
    UNIX_UNITS,
    Category,
    Feature,
    Image,
    Number,
    Text,
    TimePart,
    Timestamp,
)
from trainer.workloads.declarations.written import SPELLINGS, Written, plain_text
from trainer.workloads.encoding.columns import Column, image_column, missing_integer
from trainer.workloads.encoding.image_files import decode_image
from trainer.workloads.encoding.images import as_png, parse_image, pixels_of
from trainer.workloads.encoding.lookups import decode_text
from trainer.workloads.encoding.moments import parse_time

BRACKETS = "[]() "  # around a list of numbers in a text


def is_float(feature: Feature) -> bool:
    """Return whether a feature is stored as float32."""
    return isinstance(feature, Number)


def is_integer(feature: Feature) -> bool:
    """Return whether a feature is stored as int64; neither float nor integer: as text."""
    if isinstance(feature, Category):
        return feature.is_integer
    return isinstance(feature, TimePart | Timestamp)


def missing_value(feature: Feature) -> Any:
    """Return the value that stands for a missing one."""
    if is_float(feature):
        return np.nan
    return missing_integer(feature) if is_integer(feature) else ""


def tensor_spec(feature: Feature) -> Any:
    """Return the tf.TensorSpec of a batch of raw values."""
    if isinstance(feature, Image):
        return tf.TensorSpec([None, *feature.shape], tf.uint8, name=feature.name)
    length = feature.list_length
    return tf.TensorSpec([None, length] if length else [None], _dtype(feature), name=feature.name)


def raw_column(feature: Feature) -> Column:
    """Return the input that hands over a feature's values as they are stored."""
    if isinstance(feature, Image):
        return image_column(feature)
    return Column(
        name=feature.name,
        kind="raw",
        size=feature.list_length or 1,
        feature=feature.name,
        dtype=_dtype(feature).name,
    )


def parse_columns(
    serialized: Any, features: list[Feature], label_specs: dict[str, Any]
) -> Features:
    """Return columns by name of serialized tf.train.Examples.

    `label_specs` are the specifications of the columns of label and weight.
    """
    spec = {feature.name: _example_spec(feature) for feature in features}
    columns = tf.io.parse_example(serialized, {**spec, **label_specs})
    for feature in features:
        if isinstance(feature, Image):
            columns[feature.name] = pixels_of(columns[feature.name], feature.shape)
        if isinstance(columns[feature.name], tf.RaggedTensor):
            columns[feature.name] = columns[feature.name].to_tensor(
                default_value=missing_value(feature), shape=[None, feature.list_length]
            )
    return columns


def _dtype(feature: Feature) -> Any:
    if is_float(feature):
        return tf.float32
    return tf.int64 if is_integer(feature) else tf.string


def _example_spec(feature: Feature) -> Any:
    if isinstance(feature, Image):
        return tf.io.FixedLenFeature([], tf.string)
    dtype, length, missing = _dtype(feature), feature.list_length, missing_value(feature)
    if length and is_float(feature):
        return tf.io.FixedLenFeature([length], dtype, [missing] * length)
    if length:
        return tf.io.RaggedFeature(dtype)
    return tf.io.FixedLenFeature([], dtype, missing)


def parse_value(feature: Feature, value: Any) -> np.ndarray:
    """Return the raw value of a field, None for a missing one; ValueError names the feature."""
    if isinstance(feature, Image):
        return _parse_image(feature, value)
    parsed = _parse_plain(feature, value)
    if feature.is_required and _are_missing(feature, parsed).all():
        raise ValueError(f"{feature.name} is missing, and it is required")
    return parsed


def _are_missing(feature: Feature, values: np.ndarray) -> np.ndarray:
    if is_float(feature):
        return np.isnan(values)
    return np.asarray(values == (missing_integer(feature) if is_integer(feature) else b""))


def _parse_plain(feature: Feature, value: Any) -> np.ndarray:
    length = feature.list_length
    if not length:
        return _parse_one(feature, value)
    missing = _parse_one(feature, None)
    if value is None or _is_marker(feature, value):
        return np.full(length, missing)
    assert isinstance(feature, Category | Number)
    if isinstance(value, str):
        is_texts = isinstance(feature, Category) and not feature.is_integer
        value = (value if is_texts else value.strip(BRACKETS)).split(feature.separator)
    if not isinstance(value, list):
        raise ValueError(
            f"{feature.name} is {value!r}; it must be a list, or a text with {feature.separator!r}"
            " between the values"
        )
    if value and is_float(feature) and len(value) != length:
        raise ValueError(f"{feature.name} has {len(value)} numbers; it must have {length}")
    rows = [_parse_one(feature, item) for item in value]
    if not is_float(feature):
        rows = [row for row in rows if row != missing][:length]
    return np.stack([*rows, *[missing] * (length - len(rows))])


def parse_column(feature: Feature, values: list[Any]) -> np.ndarray:
    """Return the raw values of the fields of many requests, as `parse_value` does, but faster."""
    column = _plain_column(feature, values)
    if column is None or (feature.is_required and _are_missing(feature, column).any()):
        return np.stack([parse_value(feature, value) for value in values])
    return column


def _plain_column(feature: Feature, values: list[Any]) -> np.ndarray | None:
    """Return the raw values of plain numbers or texts, None if each must be looked at."""
    types = set(map(type, values)) - {type(None)}
    if feature.list_length or isinstance(feature, Timestamp | Image):
        return None
    if not (is_float(feature) or is_integer(feature)):
        if not types <= {str}:
            return None
        return np.asarray([_text_of(feature, value) for value in values], object)
    missing, sent = missing_value(feature), [value for value in values if value is not None]
    filled = [missing if value is None else value for value in values]
    if feature.missing or not types <= {int, float}:
        return None
    if is_float(feature):
        column = _as_float32(filled)
        return None if np.isinf(column).any() or any(map(math.isnan, sent)) else column
    assert isinstance(feature, Category | TimePart)
    low, high = feature.low or 0, feature.high or 0
    is_within = types <= {int} and (not sent or low <= min(sent) <= max(sent) <= high)
    return np.asarray(filled, np.int64) if is_within else None


def plain_spellings(feature: Feature, terms: Sequence[str]) -> dict[str, str]:
    """Return the plain spelling of each text that `plain_text` and missing markers replace.

    `terms` is the vocabulary, if there is one: most have neither true nor false, and so their
    spellings make no difference.
    """
    is_spelled = not terms or not {"true", "false"}.isdisjoint(terms)
    spellings = SPELLINGS if isinstance(feature, Category) and is_spelled else {}
    plain = {text: spellings.get(text, text) for text in (*spellings, *feature.missing)}
    missing = {plain[text] for text in feature.missing}
    return {text: "" if own in missing else own for text, own in plain.items()} | dict.fromkeys(
        missing, ""
    )


def plain_strings(texts: Any, spellings: Mapping[str, str]) -> Any:
    """Return texts as preparing stores them, computed in the graph."""
    plain = tf.strings.strip(texts)
    for text, spelling in spellings.items():
        plain = tf.where(plain == text, spelling, plain)
    return plain


def format_value(feature: Feature, value: Any) -> Any:
    """Return the field of a request for a raw value; None for a missing one."""
    if isinstance(feature, Image):
        return as_png(np.asarray(value))
    if not feature.list_length:
        return _format_one(feature, value)
    items = [_format_one(feature, item) for item in value]
    if is_float(feature):
        return None if all(item is None for item in items) else items
    return [item for item in items if item is not None] or None


def _parse_image(feature: Image, value: Any) -> np.ndarray:
    if value is None:
        raise ValueError(f"the field {feature.name!r} is missing: it holds a picture")

    def decode(data: bytes) -> np.ndarray:
        return decode_image(data, feature).reshape(feature.shape)

    try:
        return parse_image(value, feature.shape, decode)
    except ValueError as error:
        raise ValueError(f"{feature.name}: {error}") from error


def _as_float32(values: Any) -> np.ndarray:
    """Return numbers as float32; those that are too large become infinite."""
    try:
        numbers = np.asarray(values, np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        numbers = np.full(np.shape(values), np.inf)
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _parse_one(feature: Feature, value: Any) -> np.ndarray:
    if not (is_float(feature) or is_integer(feature)):
        if isinstance(feature, Category) and isinstance(value, int):
            value = str(value)
        if not isinstance(value, str | None):
            raise ValueError(f"{feature.name} is {value!r}; it must be a text")
        return np.asarray(_text_of(feature, value), object)
    if value is None or _is_marker(feature, value):
        return np.asarray(missing_value(feature), np.float32 if is_float(feature) else np.int64)
    if isinstance(feature, Timestamp):
        return np.asarray(parse_time(value, feature), np.int64)
    if isinstance(value, str):
        form = feature if isinstance(feature, Number) else Written()
        read = form.number_of(value)
        if read is not None and _is_marker(feature, read):
            return _parse_one(feature, None)
        return _check_number(feature, value if read is None else read, value)
    return _check_number(feature, value, value)


def _check_number(feature: Feature, value: Any, sent: Any) -> np.ndarray:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value:  # NaN  # noqa: PLR0124
        also = getattr(feature, "example", "")
        raise ValueError(f"{feature.name} is {sent!r}; it must be a number{also}")
    if is_float(feature):
        number = _as_float32(value)
        if np.isinf(number):
            raise ValueError(f"{feature.name} is {sent!r:.40}; it is too large for a float32")
        return number
    assert isinstance(feature, Category | TimePart)
    low, high = feature.low or 0, feature.high or 0
    if not low <= value <= high or value != int(value):
        raise ValueError(
            f"{feature.name} is {sent!r:.40}; it must be a whole number from {low} to {high}"
        )
    return np.asarray(value, np.int64)


def _text_of(feature: Feature, value: str | None) -> bytes:
    """Return a text as preparing stores it, an empty one for a missing value."""
    if not value:
        return b""
    plain = value.strip() if isinstance(feature, Text) else plain_text(value)
    return b"" if _is_marker(feature, plain) else plain.encode()


def _is_marker(feature: Feature, value: Any) -> bool:
    """Return whether a value is one of the texts, or numbers, that mean a missing one."""
    if isinstance(value, str):
        read = str.strip if isinstance(feature, Text | Timestamp | Image) else plain_text
        return read(value) in ("", *map(read, feature.missing))
    is_number = isinstance(value, int | float)
    return is_number and any(Written().number_of(text) == value for text in feature.missing)


def _format_one(feature: Feature, value: Any) -> Any:
    if is_float(feature):
        # As a person writes it, 4.7: the same float32 as 4.699999809265137.
        return float(str(np.float32(value))) if np.isfinite(value) else None
    if is_integer(feature):
        unit = UNIX_UNITS.get(getattr(feature, "format", ""), 1)
        return int(value) * unit if value != missing_value(feature) else None
    return decode_text(value, feature=feature.name) if value else None
