"""Files that a run writes beside a model for later runs; they are no part of the model's digest."""

from pathlib import Path

from trainer import paths

GOLDEN_FILE = "golden.json"
STATISTICS_FILE = "statistics.json"  # of the train split that the model has learnt from
INPUT_FILE = "input.json"  # fingerprint, files and days of the raw data
COMPANIONS = frozenset({GOLDEN_FILE, STATISTICS_FILE, INPUT_FILE})


def write_companion(model_dir: str, name: str, text: str) -> None:
    """Write a file beside a SavedModel: all of it, or nothing."""
    path = Path(model_dir) / name
    draft = path.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def read_companion(model_uri: str, name: str) -> bytes | None:
    """Return a file beside a model, on this machine or in a bucket; None without such a file."""
    if not model_uri:
        return None
    if paths.is_bucket_uri(model_uri):
        return _read_from_bucket(f"{model_uri.rstrip('/')}/{name}")
    path = paths.local_path(model_uri) / name
    return path.read_bytes() if path.is_file() else None


def _read_from_bucket(uri: str) -> bytes | None:
    from google.cloud import storage
    from google.cloud.exceptions import NotFound

    blob = storage.Blob.from_string(uri, client=storage.Client())
    try:
        content: bytes = blob.download_as_bytes()
    except NotFound:
        return None
    return content
