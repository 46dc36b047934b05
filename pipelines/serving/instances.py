"""Instances in files: reading, prediction requests in batches, and a table of predictions."""

import codecs
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.endpoint.predict.parity import MAX_REQUEST_BYTES, request_predictions
from components.shared.text.user_file import FileError, read_file
from components.shared.vertex.api import VertexApi
from components.shared.vertex.errors import VertexError
from pipelines.errors import ResourceError
from pipelines.resources.names import endpoint_of
from pipelines.resources.table import TextTable
from trainer.errors import near_path
from trainer.serving import strict_json

MAX_FILE_BYTES = 500_000_000
STDIN = "-"
# Keys of a request that change its meaning; a file of golden predictions has others.
_NOT_SENT = {"inputs", "parameters", "signature_name"}
_BIG = "trainyard predict takes files of any size"
_ONE_A_LINE = "it must have one JSON instance per line"
_INSTANCE_NUMBER = re.compile(r"\binstance (\d+)\b")


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance and its position in the file, for messages."""

    value: Any
    position: str
    num_bytes: int


def read_document(path: Path) -> list[Instance]:
    """Return the instances of a JSON file: a list, or an object with the key `instances`.

    Raises:
        ResourceError: the file cannot be read, or has another content.
    """
    name, data = _read(path)
    try:
        content = strict_json.parse(data.removeprefix(codecs.BOM_UTF8))
    except ValueError as error:
        raise ResourceError(
            f"{name} is not JSON: {error}; for one instance per line use --json-instances"
        ) from error
    instances = content.get("instances") if isinstance(content, dict) else content
    if isinstance(content, dict) and instances is None and "inputs" in content:
        raise ResourceError(
            f'{name} has the key "inputs", a request in columns; write {{"instances": [...]}} with '
            "one instance per prediction"
        )
    if not isinstance(instances, list) or not instances:
        raise ResourceError(f'{name} must be a list of instances, or {{"instances": [...]}}')
    if isinstance(content, dict) and (unsent := sorted(content.keys() & _NOT_SENT)):
        raise ResourceError(f"{name} has {', '.join(unsent)}, which the command does not send")
    return [
        _instance(value, position=f"{name}, instance {index}")
        for index, value in enumerate(instances)
    ]


def read_lines(path: Path) -> list[Instance]:
    """Return the instances of a file with one JSON instance per line; empty lines are skipped.

    Raises:
        ResourceError: the file cannot be read or is empty, or a line is not JSON.
    """
    name, data = _read(path)
    lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    instances = [
        _read_line(line, position=f"{name}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not instances:
        raise ResourceError(f"{name} is empty; {_ONE_A_LINE}")
    return instances


def predict(api: VertexApi, name: str, instances: Sequence[Instance]) -> list[Any]:
    """Return the predictions of an endpoint, by display name or id, in the instances' order.

    Raises:
        VertexError: a request was refused; names the instance's position in the file.
    """
    endpoint = endpoint_of(api, name)["name"]
    predictions: list[Any] = []
    for batch in batches(instances):
        try:
            response = request_predictions(api, endpoint, [instance.value for instance in batch])
        except VertexError as error:
            raise _with_position(error, batch) from error
        predictions += response.predictions
    return predictions


def batches(instances: Iterable[Instance]) -> Iterator[list[Instance]]:
    """Yield the instances in batches that fit into a request.

    Raises:
        ResourceError: a single instance is too large.
    """
    batch: list[Instance] = []
    num_bytes = 0
    for instance in instances:
        if instance.num_bytes > MAX_REQUEST_BYTES:
            raise ResourceError(
                f"{instance.position}: the instance has {instance.num_bytes:,} bytes; the limit of"
                f" a request is {MAX_REQUEST_BYTES:,}"
            )
        if batch and num_bytes + instance.num_bytes > MAX_REQUEST_BYTES:
            yield batch
            batch, num_bytes = [], 0
        batch.append(instance)
        num_bytes += instance.num_bytes
    if batch:
        yield batch


def predictions_table(predictions: Sequence[Any]) -> TextTable:
    """Return a row for each prediction and a column for each key; numbers have six digits."""
    rows = [row if isinstance(row, dict) else {"prediction": row} for row in predictions]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = [tuple(_cell(row[key]) if key in row else "" for key in keys) for row in rows]
    return TextTable(tuple(key.upper() for key in keys), cells)


def _read(path: Path) -> tuple[str, bytes]:
    if str(path) == STDIN:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ResourceError(f"standard input has over {MAX_FILE_BYTES:,} bytes; {_BIG}")
        return "standard input", data
    try:
        return str(path), read_file(path, max_bytes=MAX_FILE_BYTES, may_stream=True)
    except FileError as error:
        raise ResourceError(f"cannot read {path}: {error}; {_BIG}") from error
    except OSError as error:
        reason = f"{error.strerror}{near_path(path)}"
        raise ResourceError(f"cannot read {path}: {reason}") from error


def _read_line(line: bytes, *, position: str) -> Instance:
    try:
        value = strict_json.parse(line)
    except ValueError as error:
        raise ResourceError(f"{position}: not JSON: {error}; {_ONE_A_LINE}") from error
    if isinstance(value, dict) and isinstance(value.get("instances"), list):
        raise ResourceError(
            f'{position} is {{"instances": [...]}}, which is for --instances; {_ONE_A_LINE}'
        )
    return _instance(value, position=position)


def _instance(value: Any, *, position: str) -> Instance:
    separator = 2
    return Instance(value=value, position=position, num_bytes=len(json.dumps(value)) + separator)


def _with_position(error: VertexError, batch: Sequence[Instance]) -> VertexError:
    """Return the error with an instance's number in the batch replaced by its file position."""
    match = _INSTANCE_NUMBER.search(error.message)
    if match and int(match[1]) < len(batch):
        position = batch[int(match[1])].position
        message = f"{error.message[: match.start()]}{position}{error.message[match.end() :]}"
    else:
        message = f"{batch[0].position} to {batch[-1].position.rpartition(' ')[2]}: {error.message}"
    return error.final(message)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_cell, value))}]"
    return json.dumps(value)
