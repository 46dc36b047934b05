"""Base64 texts of requests, as people send them."""

import base64
import binascii
import re
from typing import Any

_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")
_STANDARD = str.maketrans("-_", "+/", " \t\r\n")


def decode_base64(text: Any) -> bytes:
    """Return the bytes of a base64 text.

    It may be URL-safe, have no padding, be broken into lines, and be a `data:` URL.

    Raises:
        ValueError: it is not base64.
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
    """Return texts and {"b64": …} as bytes, in lists of the same structure.

    Raises:
        ValueError: there is another value.
    """
    if isinstance(value, list):
        return [texts_as_bytes(item) for item in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"b64"}:
        return decode_base64(value["b64"])
    raise ValueError(f'{value!r:.60} is not a text; it must hold texts, or {{"b64": …}}')
