"""Instances of batch predictions in files, as Vertex AI converts them.

https://cloud.google.com/vertex-ai/docs/predictions/get-batch-predictions
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

from vertex_local.errors import invalid_argument
from vertex_local.machine.files import local_path, path_problem

RECORD_HEAD = struct.Struct("<QI")  # length and its checksum; the data's checksum follows the data
CHECKSUM_BYTES = 4


@dataclass(frozen=True)
class BadRow:
    """Row of a file that is no instance."""

    reason: str


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


def read_instances(path: Path, kind: str) -> Iterator[Any]:
    """Yield the instances of a file of a kind in FORMATS, and a `BadRow` for each other row.

    It is the last one if the rest of the file cannot be read.
    """
    opened: Any = gzip.open if kind == "tf-record-gzip" or path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            yield from FORMATS[kind](file)
    except (OSError, EOFError) as error:
        yield BadRow(f"{path} cannot be read: {error}")


def _lines(file: IO[bytes]) -> Iterator[Any]:
    for line in filter(bytes.strip, file):
        try:
            yield orjson.loads(line)
        except ValueError as error:
            yield BadRow(f"it is not JSON: {error}")


def _csv(file: IO[bytes]) -> Iterator[Any]:
    """Yield the rows below the header; a value without quotes is a number, as on Vertex AI."""
    lines = (line.decode("utf-8-sig", errors="replace") for line in file)
    header = next(csv.reader(lines), [])
    rows = csv.reader(lines, quoting=csv.QUOTE_NONNUMERIC)
    while True:
        try:
            row = next(rows, None)
        except (csv.Error, ValueError) as error:
            yield BadRow(f"a text must be in double quotes: {error}")
            continue
        if row is None:
            return
        if row:
            is_whole = len(row) == len(header)
            yield row if is_whole else BadRow(f"it has {len(row)} values, not {len(header)}")


def _records(file: IO[bytes]) -> Iterator[Any]:
    while head := file.read(RECORD_HEAD.size):
        length = RECORD_HEAD.unpack(head)[0] if len(head) == RECORD_HEAD.size else 0
        data = file.read(length + CHECKSUM_BYTES)
        if len(data) < length + CHECKSUM_BYTES:
            raise EOFError("it ends within a record")
        yield {"b64": base64.b64encode(data[:length]).decode()}


FORMATS: dict[str, Callable[[IO[bytes]], Iterator[Any]]] = {
    "jsonl": _lines,
    "csv": _csv,
    "tf-record": _records,
    "tf-record-gzip": _records,
}
