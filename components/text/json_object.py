"""Parser of the pipeline's parameters that are JSON objects."""

import json

from trainer import Json
from trainer.errors import ConfigError


def parse_object(text: str, *, name: str) -> Json:
    """Return the object of a parameter; ConfigError names the parameter and its value."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} is not JSON ({error}): {text!r}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is {text!r}; it must be a JSON object")
    return value
