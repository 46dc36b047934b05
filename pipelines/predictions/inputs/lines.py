"""JSON lines, each an instance of a request; of a model of images a picture is one, too."""

import base64
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from components.prepare_examples.tables.reading.encodings import NOT_UTF_8
from components.prepare_examples.tables.reading.kinds import open_text, whole_gzip
from pipelines.predictions.inputs.batch import BATCH_ROWS, Batch
from trainer import Json
from trainer.serving.http.bodies import parse_json, parse_many


def read_lines(part: Json, predictor: Any) -> Iterator[Batch]:
    """Yield the instances of a file; blank lines are skipped.

    A line that is not JSON, or no instance of the model, becomes an error of its batch.

    Raises:
        DataError: the file is a damaged gzip file.
    """
    with open_text(part["path"]) as file:
        lines = _numbered(file, part["path"])
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


def _numbered(file: IO[bytes], path: str) -> Iterator[tuple[int, bytes]]:
    with whole_gzip(path):
        for number, line in enumerate(file, 1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield number, text
