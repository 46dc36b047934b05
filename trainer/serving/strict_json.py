"""Strict JSON: no NaN, no infinity, no duplicate keys, no lone surrogates."""

import json
from typing import Any


def parse(data: bytes) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: It is not JSON (RFC 8259, in UTF-8), or programs may parse it differently.
    """
    text = data.decode()  # json.loads(data) would accept surrogates
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_float,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {json.dumps(twice[:100])} is given twice")
    return found


def _refuse_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        raise ValueError(
            f"\\u{code:04x} is a surrogate without its other half, not a character"
        ) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
