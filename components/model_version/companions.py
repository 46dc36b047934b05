"""Files that a run writes beside a model for later runs; they are no part of the model's digest."""

import contextlib
import hashlib
import json
from pathlib import Path, PurePosixPath

from components.shared.text.json_object import object_in
from trainer import Json, paths
from trainer.errors import InputError
from trainer.runtime.machine import MACHINE_FILE
from trainer.serving.digests import (
    COPY_AGAIN,
    DIGESTS_FILE,
    check_digest,
    parse_digests,
)

GOLDEN_FILE = "golden.json"  # instances with offline predictions, to check any server later
GOLDEN_FIELDS = ("instances", "predictions", "labels")
EVALUATED_FILE = "evaluated.json"  # the last evaluation, with what it depends on
FOLDS_FILE = "folds.json"  # predictions of rows by models that were not trained on them
STATISTICS_FILE = "statistics.json"  # of the train split that the model has learnt from
INPUT_FILE = "input.json"  # fingerprint, files and days of the raw data
COMPANIONS = frozenset(
    {GOLDEN_FILE, EVALUATED_FILE, FOLDS_FILE, STATISTICS_FILE, INPUT_FILE, MACHINE_FILE}
)
RUN_DIGESTS_FILE = "run-digests.json"  # of these, as DIGESTS_FILE has those of the model
DRAFTS = {
    name: PurePosixPath(name).with_suffix(".tmp").name for name in (*COMPANIONS, RUN_DIGESTS_FILE)
}


def model_files(model_dir: str | Path) -> dict[str, Path]:
    """Return the files of a model by relative path, without the files beside it.

    A step that is killed while it writes a file beside a model leaves that file's draft.
    """
    beside = {*DRAFTS, *DRAFTS.values(), DIGESTS_FILE}
    paths = sorted(Path(model_dir).rglob("*"))
    named = {path.relative_to(model_dir).as_posix(): path for path in paths}
    return {name: path for name, path in named.items() if name not in beside and path.is_file()}


def write_companion(model_dir: str, name: str, content: Json) -> None:
    """Write a JSON object beside a SavedModel, all of it or nothing, and then its digest."""
    digest = hashlib.sha256(_replace(model_dir, name, content)).hexdigest()
    digests = {}
    with contextlib.suppress(InputError):  # damaged: a run writes all files again
        digests = read_digests(model_dir, RUN_DIGESTS_FILE)
    _replace(model_dir, RUN_DIGESTS_FILE, {**digests, name: digest})


def _replace(model_dir: str, name: str, content: Json) -> bytes:
    path, written = Path(model_dir) / name, json.dumps(content).encode()
    draft = path.with_name(DRAFTS[name])
    draft.write_bytes(written)
    draft.replace(path)
    return written


def read_golden(version: Json) -> Json | None:
    """Read the golden predictions of a model version; None if it has none.

    They are in the version's artifact folder, on this machine or in a bucket.

    Raises:
        InputError: their file is damaged.
    """
    return read_companion_object(version.get("artifactUri", ""), GOLDEN_FILE, *GOLDEN_FIELDS)


def read_digests(model_uri: str, name: str = DIGESTS_FILE) -> dict[str, str]:
    """Return the digests of a model's files, or of those beside it; {} without any.

    Raises:
        InputError: they are damaged.
    """
    content = _read(model_uri, name)
    path = f"{model_uri.rstrip('/')}/{name}"
    return parse_digests(content, path=path) if content is not None else {}


def read_companion(model_uri: str, name: str) -> bytes | None:
    """Return a file in a model's folder, on this machine or in a bucket; None without such a file.

    Raises:
        InputError: it is not the file that was written, by its digest.
    """
    content = _read(model_uri, name)
    digests = read_digests(model_uri, RUN_DIGESTS_FILE if name in COMPANIONS else DIGESTS_FILE)
    if digests:
        actual = hashlib.sha256(content).hexdigest() if content is not None else ""
        check_digest(f"{model_uri.rstrip('/')}/{name}", actual, digests.get(name, ""))
    return content


def _read(model_uri: str, name: str) -> bytes | None:
    if not model_uri:
        return None
    if paths.is_bucket_uri(model_uri):
        return _read_from_bucket(f"{model_uri.rstrip('/')}/{name}")
    path = paths.local_path(model_uri) / name
    return path.read_bytes() if path.is_file() else None


def read_companion_object(model_uri: str, name: str, *fields: str) -> Json | None:
    """Return the JSON object in a file beside a model; None without such a file.

    Raises:
        InputError: it cannot be read, is damaged or lacks one of `fields`; names the file.
    """
    content = read_companion(model_uri, name)
    if content is None:
        return None
    path = f"{model_uri.rstrip('/')}/{name}"
    return object_in(content, *fields, name=path, remedy=COPY_AGAIN)


def _read_from_bucket(uri: str) -> bytes | None:
    from google.api_core.exceptions import GoogleAPIError, NotFound
    from google.cloud import storage

    blob = storage.Blob.from_uri(uri, client=storage.Client())
    try:
        content: bytes = blob.download_as_bytes()
    except NotFound:
        return None
    except GoogleAPIError as error:
        raise InputError(f"{uri} cannot be read: {error}") from error
    return content
