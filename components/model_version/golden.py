"""Golden predictions in a model's folder, to check any of its versions later."""

import json
from pathlib import Path

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
    """Read the golden predictions of a model version; None if it has none.

    They are in the version's artifact folder, on this machine or in a bucket.
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
    content: Json = json.loads(text)
    return content
