"""Instances of batch predictions: read from files, and converted to what the model accepts.

https://cloud.google.com/vertex-ai/docs/predictions/get-batch-predictions and `instanceConfig` in
the API's reference.
"""

import base64
import csv
import glob
import gzip
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from vertex_local import Json
from vertex_local.errors import invalid_argument
from vertex_local.machine.files import local_path, path_problem

RECORD_HEAD = struct.Struct("<QI")  # length and its checksum; the data's checksum follows the data
CHECKSUM_BYTES = 4


@dataclass(frozen=True)
class Row:
    """Row of a file: the `instance` for the model, and `shown` beside its prediction."""

    instance: Any
    shown: Json


def find_files(uri: str) -> list[Path]:
    """Return the files of a URI, which may have wildcards.

    Raises:
        ApiError: INVALID_ARGUMENT: it is not on this machine, or names no file.
    """
    path = local_path(uri)
    if path is None:
        raise invalid_argument(f'inputConfig.gcsSource.uris: "{uri}" {path_problem(uri)}.')
    names = [str(path)] if path.is_file() else sorted(glob.glob(str(path), recursive=True))
    files = [file for file in map(Path, names) if file.is_file()]
    if not files:
        raise invalid_argument(f'inputConfig.gcsSource.uris: "{uri}" matches no file.')
    return files


def read_rows(path: Path, kind: str, config: Json) -> Iterator[Row | ValueError]:
    """Yield the rows of a file of a kind in FORMATS, and an error for a row that is no instance.

    `config` is an `instanceConfig`.

    Raises:
        OSError, EOFError: The file cannot be read, or ends within a record.
    """
    opened: Any = gzip.open if kind == "tf-record-gzip" or path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        for value in FORMATS[kind](file):
            yield value if isinstance(value, ValueError) else _row_of(value, config)


def _row_of(value: Any, config: Json) -> Row | ValueError:
    key, included = config.get("keyField", ""), config.get("includedFields", [])
    excluded = [*config.get("excludedFields", []), *([key] if key else [])]
    is_array = isinstance(value, CsvRow) or config.get("instanceType") == "array"
    if not (included or excluded or is_array) or isinstance(value, list):
        return Row(value, {"instance": value})
    if not isinstance(value, dict):
        return ValueError("it is not an object, whose fields instanceConfig names")
    fields = [name for name in included or value if name not in excluded]
    if missing := [name for name in (*fields, *filter(None, [key])) if name not in value]:
        return ValueError(f'it has no field "{missing[0]}"')
    sent = {name: value[name] for name in fields}
    instance = list(sent.values()) if is_array else sent
    if key:
        return Row(instance, {"key": value[key]})
    left_out = {name: value[name] for name in excluded if name in value}
    return Row(instance, {"instance": instance, **left_out})


class CsvRow(dict[str, Any]):
    """Row of a CSV file, which a model gets as an array."""


def _lines(file: IO[bytes]) -> Iterator[Any]:
    for line in filter(bytes.strip, file):
        try:
            yield orjson.loads(line)
        except ValueError as error:
            yield ValueError(f"it is not JSON: {error}")


def _csv(file: IO[bytes]) -> Iterator[Any]:
    """Yield the rows below a header; a value without quotes is a number, as on Vertex AI."""
    lines = (line.decode("utf-8-sig", errors="replace") for line in file)
    header = next(csv.reader(lines), [])
    rows = csv.reader(lines, quoting=csv.QUOTE_NONNUMERIC)
    while True:
        try:
            row = next(rows, None)
        except (csv.Error, ValueError) as error:
            yield ValueError(f"a text must be in double quotes: {error}")
            continue
        if row is None:
            return
        if row and len(row) != len(header):
            yield ValueError(f"it has {len(row)} values, and the header {len(header)}")
        elif row:
            yield CsvRow(zip(header, row, strict=True))


def _records(file: IO[bytes]) -> Iterator[Any]:
    while head := file.read(RECORD_HEAD.size):
        length = RECORD_HEAD.unpack(head)[0] if len(head) == RECORD_HEAD.size else 0
        data = file.read(length + CHECKSUM_BYTES)
        if len(data) < length + CHECKSUM_BYTES:
            raise EOFError("it ends within a record")
        yield _binary(data[:length])


def _listed(file: IO[bytes]) -> Iterator[Any]:
    for line in filter(bytes.strip, file):
        uri = line.decode(errors="replace").strip()
        try:
            yield _binary(Path(local_path(uri) or uri).read_bytes())
        except (OSError, ValueError) as error:
            yield ValueError(f"{uri} cannot be read: {error}")


def _binary(data: bytes) -> Json:
    return {"b64": base64.b64encode(data).decode()}


FORMATS: dict[str, Callable[[IO[bytes]], Iterator[Any]]] = {
    "jsonl": _lines,
    "csv": _csv,
    "tf-record": _records,
    "tf-record-gzip": _records,
    "file-list": _listed,
}
