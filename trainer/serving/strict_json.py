"""Strict JSON: no NaN, no infinity, no duplicate keys, no lone surrogates."""

import json
import math
from typing import Any


def parse(data: bytes) -> Any:
    """Parse JSON (RFC 8259, in UTF-8); ValueError if it is none, or programs would differ in it."""
    text = data.decode()  # json.loads(data) would accept surrogates
    large: list[str] = []

    def read_float(number: str) -> float:
        value = float(number)
        large.extend([number] if math.isinf(value) else [])
        return value

    try:
        value = json.loads(
            text, parse_constant=_reject_constant, parse_float=read_float, object_pairs_hook=_object
        )
        field = _infinite_field(value) if large else ""
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if large:
        owner = f"{json.dumps(field[:100])}: " if field else ""
        raise ValueError(f"{owner}the number {large[0][:40]} is too large")
    if "\\u" in text:
        _reject_surrogates(value)
    return value


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _infinite_field(value: Any, name: str = "") -> str | None:
    """Return the innermost key with the first infinite number, "" without a key; None without."""
    if isinstance(value, float) and math.isinf(value):
        return name
    if not isinstance(value, dict | list):
        return None
    items = value.items() if isinstance(value, dict) else ((name, item) for item in value)
    fields = (_infinite_field(item, key) for key, item in items)
    return next((field for field in fields if field is not None), None)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {json.dumps(twice[:100])} occurs twice")
    return content


def _reject_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        raise ValueError(f"\\u{code:04x} is a lone surrogate, half a character") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def finite(value: Any) -> Any:
    """Return a value for JSON, with null instead of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
