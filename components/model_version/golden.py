"""The golden predictions that a model's folder holds, so that every version can be checked."""

import json
from pathlib import Path
from typing import Any

from trainer import paths
from trainer.json_types import Json

GOLDEN_FILE = "golden.json"


def write_golden(model_dir: str, golden: Json) -> None:
    """Write instances, offline predictions and true labels beside a SavedModel."""
    path = Path(model_dir) / GOLDEN_FILE
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(golden), encoding="utf-8")
    draft.replace(path)


def read_golden(version: Json) -> Json | None:
    """Return the golden predictions of a model version as the API answers it; None without any.

    They are read from the version's artifact folder, here or in a bucket.
    """
    uri = version.get("artifactUri", "")
    if not uri:
        return None
    if paths.is_bucket_uri(uri):
        return _read_from_bucket(f"{uri.rstrip('/')}/{GOLDEN_FILE}")
    path = paths.local_path(uri) / GOLDEN_FILE
    return _parsed(path.read_bytes()) if path.is_file() else None


def _read_from_bucket(uri: str) -> Json | None:
    from google.cloud import storage
    from google.cloud.exceptions import NotFound

    blob = storage.Blob.from_string(uri, client=storage.Client())
    try:
        return _parsed(blob.download_as_bytes())
    except NotFound:
        return None


def _parsed(text: bytes) -> Json:
    content: dict[str, Any] = json.loads(text)
    return content
