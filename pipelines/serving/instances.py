"""Instances of a file: read, sent to an endpoint in pieces, and its predictions as a table."""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from components.predict.online_prediction import request_predictions
from components.vertex.api import VertexApi, VertexError
from pipelines.resources import ResourceError, Table, endpoint_of

# Vertex AI takes 1,500,000 bytes; the rest is for what is around the instances.
MAX_REQUEST_BYTES = 1_400_000
STDIN = "-"
_ONE_A_LINE = "it must hold one instance a line, as JSON"
_SERVERS_INDEX = re.compile(r"\binstance (\d+)\b")


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An instance and its place in the file, for messages."""

    value: Any
    place: str
    num_bytes: int


def read_document(path: Path) -> list[Instance]:
    """Return the instances of a JSON file: a list, or an object with the key `instances`.

    Raises:
        ResourceError: it cannot be read, or holds something else.
    """
    name, data = _read(path)
    try:
        content = _parse(data.decode("utf-8-sig"))
    except ValueError as error:
        raise ResourceError(
            f"{name} is not JSON: {error}; a file of one instance a line is for --json-instances"
        ) from error
    instances = content.get("instances") if isinstance(content, dict) else content
    if isinstance(content, dict) and instances is None and "inputs" in content:
        raise ResourceError(
            f'{name} has the key "inputs", a request of columns; write {{"instances": [...]}} with '
            "one instance for each prediction"
        )
    if not isinstance(instances, list) or not instances:
        raise ResourceError(f'{name} must hold a list of instances, or {{"instances": [...]}}')
    return [
        _instance(value, place=f"{name}, instance {index}") for index, value in enumerate(instances)
    ]


def read_lines(path: Path) -> list[Instance]:
    """Return the instances of a file that holds one a line, as JSON; empty lines are skipped.

    Raises:
        ResourceError: it cannot be read, has no instance, or a line is not JSON; names the line.
    """
    name, data = _read(path)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = [
        _read_line(line, place=f"{name}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not found:
        raise ResourceError(f"{name} is empty; {_ONE_A_LINE}")
    return found


def predict(api: VertexApi, name: str, instances: Sequence[Instance]) -> list[Any]:
    """Return the predictions of an endpoint, by display name or id, in the instances' order.

    Raises:
        VertexError: a request was refused; names the place of the instance in the file.
    """
    endpoint = endpoint_of(api, name)["name"]
    predictions: list[Any] = []
    for piece in pieces(instances):
        try:
            answer = request_predictions(api, endpoint, [instance.value for instance in piece])
        except VertexError as error:
            raise _placed(error, piece) from error
        predictions += answer.predictions
    return predictions


def pieces(instances: Iterable[Instance]) -> Iterator[list[Instance]]:
    """Yield the instances in groups that a request has room for.

    Raises:
        ResourceError: one alone is too large.
    """
    piece: list[Instance] = []
    num_bytes = 0
    for instance in instances:
        if instance.num_bytes > MAX_REQUEST_BYTES:
            raise ResourceError(
                f"{instance.place}: the instance has {instance.num_bytes:,} bytes; a request takes "
                f"{MAX_REQUEST_BYTES:,}"
            )
        if piece and num_bytes + instance.num_bytes > MAX_REQUEST_BYTES:
            yield piece
            piece, num_bytes = [], 0
        piece.append(instance)
        num_bytes += instance.num_bytes
    if piece:
        yield piece


def predictions_table(predictions: Sequence[Any]) -> Table:
    """Return a row for each prediction, a column for each key; numbers with six digits."""
    rows = [one if isinstance(one, dict) else {"prediction": one} for one in predictions]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = [tuple(_cell(row[key]) if key in row else "" for key in keys) for row in rows]
    return Table(tuple(key.upper() for key in keys), cells)


def _read(path: Path) -> tuple[str, bytes]:
    if str(path) == STDIN:
        return "standard input", sys.stdin.buffer.read()
    try:
        return str(path), path.read_bytes()
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror}") from error


def _read_line(line: bytes, *, place: str) -> Instance:
    try:
        value = _parse(line.decode())
    except ValueError as error:
        raise ResourceError(f"{place}: not JSON: {error}; {_ONE_A_LINE}") from error
    if isinstance(value, dict) and isinstance(value.get("instances"), list):
        raise ResourceError(
            f'{place} holds {{"instances": [...]}}, which --instances takes; {_ONE_A_LINE}'
        )
    return _instance(value, place=place)


def _parse(text: str) -> Any:
    """Return the content of a JSON text, which has neither NaN nor numbers beyond a float."""
    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _finite(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _refuse_number(text)


def _instance(value: Any, *, place: str) -> Instance:
    separator = 2
    return Instance(value=value, place=place, num_bytes=len(json.dumps(value)) + separator)


def _placed(error: VertexError, piece: Sequence[Instance]) -> VertexError:
    """Return the error with an instance's number in the request replaced by its place."""
    match = _SERVERS_INDEX.search(error.message)
    if match and int(match[1]) < len(piece):
        place = piece[int(match[1])].place
        message = f"{error.message[: match.start()]}{place}{error.message[match.end() :]}"
    else:
        message = f"{piece[0].place} to {piece[-1].place.rpartition(' ')[2]}: {error.message}"
    return error.final(message)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_cell, value))}]"
    return json.dumps(value)
