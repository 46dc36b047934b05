"""Values of requests: nested lists of numbers or texts, and base64 texts as people send them."""

import base64
import binascii
import contextlib
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")
_NUM_SHOWN = 3  # fields that an error shows
_STANDARD = str.maketrans("-_", "+/", " \t\r\n")


def decode_base64(text: Any) -> bytes:
    """Return the bytes of a base64 text; ValueError if it is not one.

    It may be URL-safe, have no padding, be broken into lines, and be a `data:` URL.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        if not isinstance(text, str):
            raise ValueError(f"its 'b64' is not base64 but {type(text).__name__}") from error
    prefix = _DATA_URL.match(text)
    plain = text[prefix.end() if prefix else 0 :].translate(_STANDARD).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"its 'b64' is not base64: {error}") from error


def texts_as_bytes(value: Any) -> Any:
    """Return texts and {"b64": …} as bytes, in lists of the same structure; else ValueError."""
    if isinstance(value, list):
        return [texts_as_bytes(item) for item in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"b64"}:
        return decode_base64(value["b64"])
    raise ValueError(f'{value!r:.60} is not a text; it must hold texts, or {{"b64": …}}')


def as_array(value: Any, *, holds_texts: bool) -> np.ndarray:
    """Return nested lists of numbers, or of texts as bytes; ValueError if they are not regular."""
    content = texts_as_bytes(value) if holds_texts else value
    try:
        array = np.asarray(content, object if holds_texts else None)
    except ValueError as error:
        raise ValueError("its lists have different lengths") from error
    if holds_texts and not all(isinstance(text, bytes) for text in array.flat):
        raise ValueError("its lists have different lengths")
    return array


def bytes_as_json(value: Any, *, is_binary: bool = False) -> Any:
    """Return the bytes in nested lists as texts, or as {"b64": …} if binary or no text."""
    if isinstance(value, list):
        return [bytes_as_json(item, is_binary=is_binary) for item in value]
    if not isinstance(value, bytes):
        return value
    if not is_binary:
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return {"b64": base64.b64encode(value).decode()}


def is_example(instance: Any, fields: Iterable[str]) -> bool:
    """Return whether an instance is a serialized tf.train.Example, not an object of these fields.

    It is {"b64": …}, as in TensorFlow Serving's REST API.
    """
    return isinstance(instance, dict) and set(instance) == {"b64"} and "b64" not in fields


def as_object(instance: Any, fields: Sequence[str]) -> Any:
    """Return the bare value of a workload's only field as an object; other instances unchanged."""
    is_bare = len(fields) == 1 and not isinstance(instance, dict)
    return {fields[0]: instance} if is_bare else instance


def check_fields(instance: Any, allowed: Iterable[str]) -> None:
    """Raise ValueError if an instance is not an object or has unknown fields, besides `key`."""
    if not isinstance(instance, dict):
        names = [f'"{name}": …' for name in islice(allowed, _NUM_SHOWN)]
        form = ", ".join([*names, "…"] if len(names) == _NUM_SHOWN else names)
        raise ValueError(f"it must be an object, {{{form}}}, not {type(instance).__name__}")
    unknown = sorted(set(instance) - {*allowed, "key"})
    if unknown:
        shown = ", ".join(repr(name) for name in allowed)
        raise ValueError(f"unknown field {unknown[0]!r}; allowed are {shown} and 'key'")
