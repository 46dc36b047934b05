"""The type of JSON objects."""

from typing import Any

Json = dict[str, Any]
