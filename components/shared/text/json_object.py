"""JSON objects: parameters of a pipeline, settings of steps, files that steps have written."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer import Json
from trainer.errors import ConfigError, InputError

RUN_AGAIN = "repeat the run with --no-cache, which executes the step that writes it"


def parse_object(text: str, *, name: str) -> Json:
    """Return the object of a parameter; ConfigError names the parameter and its value."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} is not JSON ({error}): {text!r}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is {text!r}; it must be a JSON object")
    return value


def read_object(path: str | Path, *fields: str) -> Json:
    """Return the object in a file that must have `fields`; see `object_in`."""
    return object_in(Path(path).read_bytes(), *fields, name=str(path), remedy=RUN_AGAIN)


def object_in(content: bytes, *fields: str, name: str, remedy: str) -> Json:
    """Return the object that a file contains.

    `splits.train` is a field of the object `splits`; `remedy` is the way to get an intact file.

    Raises:
        InputError: it is not UTF-8 or JSON, or lacks a field; has the name and the remedy.
    """
    try:
        value: Json = json.loads(content.decode("utf-8"))
        missing = [field for field in ("", *fields) if not _has(value, field)]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is damaged: it is not JSON ({error}); {remedy}") from error
    if missing:
        problem = f"it has no {missing[-1]!r}" if missing[0] else "it is not a JSON object"
        raise InputError(f"{name} is damaged: {problem}; {remedy}")
    return value


def as_object(body: Any) -> Json | None:
    """Return a body, text or parsed, as an object; None if it is anything else."""
    try:
        value = json.loads(body) if isinstance(body, str) else body
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a JSON object."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def present(values: Json) -> Json:
    """Return the fields of a request without those that are None, false or empty."""
    return {name: value for name, value in values.items() if value}


def _has(value: Any, field: str) -> bool:
    """Return whether a value is an object and has a field, each of whose parents is an object."""
    for part in filter(None, field.split(".")):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return bool(field) or isinstance(value, dict)
