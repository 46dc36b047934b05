"""JSON for numbers that may not be finite."""

import math
from typing import Any


def finite(value: Any) -> Any:
    """Return a value for JSON, with null instead of numbers that JSON does not have."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
