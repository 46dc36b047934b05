"""JSON lines: a file is cut between its lines, and each line is an instance of a request.

A picture is an instance, too, of a model of images.
"""

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from components.prepare_examples.tables.reading.encodings import NOT_UTF_8
from components.prepare_examples.tables.reading.kinds import (
    damaged,
    gzip_errors,
    is_gzip,
    is_plain,
    open_text,
    read_head,
)
from pipelines.predictions.inputs.batch import BATCH_ROWS, Batch
from trainer import Json
from trainer.serving.http.bodies import parse_json, parse_many

CHUNK_BYTES = 4 << 20


def cut_lines(path: str, num_parts: int) -> list[Json]:
    """Return ranges of a file's bytes, each with the number of lines before it.

    A gzipped file, or one in UTF-16, is one range, since it can be read from its start only.
    """
    if is_gzip(path) or not is_plain(read_head(path)):
        return [{"path": path, "start": 0, "stop": -1, "first_row": 0}]
    num_bytes = Path(path).stat().st_size
    targets = [num_bytes * number // num_parts for number in range(1, num_parts)]
    cuts, offset, num_lines = [(0, 0)], 0, 0
    with Path(path).open("rb") as file:
        while targets and (chunk := file.read(CHUNK_BYTES)):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            while targets and len(ends) and targets[0] <= offset + int(ends[-1]) + 1:
                last = int(ends.searchsorted(targets[0] - offset - 1))
                cuts.append((offset + int(ends[last]) + 1, num_lines + last + 1))
                targets = [target for target in targets if target > cuts[-1][0]]
            offset += len(chunk)
            num_lines += len(ends)
    stops = [*(start for start, _ in cuts[1:]), num_bytes]
    return [
        {"path": path, "start": start, "stop": stop, "first_row": first}
        for (start, first), stop in zip(cuts, stops, strict=True)
        if stop > start
    ]


def read_lines(part: Json, predictor: Any) -> Iterator[Batch]:
    """Yield the instances of a range of lines; blank lines are skipped.

    A line that is not JSON, or no instance of the model, becomes an error of its batch.

    Raises:
        DataError: the file is a damaged gzip file.
    """
    with open_text(part["path"]) as file:
        if part["start"]:
            file.seek(part["start"])
        lines = _numbered(file, part)
        while chunk := list(itertools.islice(lines, BATCH_ROWS)):
            yield _parsed(part["path"], chunk, predictor)


def read_pictures(part: Json, predictor: Any) -> Iterator[Batch]:
    """Yield an instance for each picture, whose key is the name of the file."""
    for path in map(Path, part["paths"]):
        data = {"b64": base64.b64encode(path.read_bytes()).decode()}
        line = json.dumps({"key": path.name, "image": data})
        yield _parsed(str(path), [(1, line.encode())], predictor)


def _parsed(path: str, lines: list[tuple[int, bytes]], predictor: Any) -> Batch:
    """Return the batch of numbered lines, parsed together; with a bad one, one by one."""
    workload = getattr(predictor, "workload", None)
    try:
        instances = parse_many([line for _, line in lines])
        features = workload.parse_instances(instances) if workload else None
    except (ValueError, OverflowError):
        return _parsed_one_by_one(path, lines, workload)
    return Batch(
        path=path,
        rows=[row for row, _ in lines],
        keys=[_key(instance) for instance in instances],
        features=features,
        instances=[] if workload else instances,
    )


def _parsed_one_by_one(path: str, lines: list[tuple[int, bytes]], workload: Any) -> Batch:
    rows, keys, parsed, errors = [], [], [], []
    for row, line in lines:
        try:
            instance = parse_json(line)
            parsed.append(workload.parse_instance(instance) if workload else instance)
        except (ValueError, OverflowError) as error:
            is_other = isinstance(error, UnicodeDecodeError)
            errors.append({"row": row, "reason": f"it {NOT_UTF_8}" if is_other else str(error)})
            continue
        rows.append(row)
        keys.append(_key(instance))
    if workload is None:
        return Batch(path=path, rows=rows, keys=keys, instances=parsed, errors=errors)
    names = parsed[0] if parsed else {}
    features = {name: np.stack([row_features[name] for row_features in parsed]) for name in names}
    return Batch(path=path, rows=rows, keys=keys, features=features, errors=errors)


def _key(instance: Any) -> Any:
    return instance.get("key") if isinstance(instance, dict) else None


def _numbered(file: IO[bytes], part: Json) -> Iterator[tuple[int, bytes]]:
    left = part["stop"] - part["start"]
    number = part["first_row"]
    try:
        for line in file:
            number += 1
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield number, text
            left -= len(line)
            if part["stop"] >= 0 and left <= 0:
                return
    except gzip_errors() as error:
        raise damaged(part["path"], error) from error
