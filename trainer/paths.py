"""Addresses of files: gs:// for TensorFlow and Google's APIs, /gcs/ for Python and Beam.

Vertex AI mounts every bucket below /gcs/ in the containers of pipelines and jobs, though not in
prediction servers. https://cloud.google.com/vertex-ai/docs/training/cloud-storage-file-system
"""

from pathlib import Path

BUCKET_SCHEME = "gs://"
CLOUD_MOUNT = "/gcs/"
FILE_SCHEME = "file://"


def local_path(address: str | Path) -> Path:
    """The path that Python can open: gs://BUCKET/X is /gcs/BUCKET/X, file:///X is /X.

    Raises:
        ValueError: a bucket is named where none is mounted.
    """
    text = str(address)
    if not text.startswith(BUCKET_SCHEME):
        return Path(text.removeprefix(FILE_SCHEME))
    if not Path(CLOUD_MOUNT).is_dir():
        raise ValueError(
            f"{text}: buckets are reached through {CLOUD_MOUNT}, which Vertex AI mounts and this "
            "machine does not have; name a local folder"
        )
    return Path(CLOUD_MOUNT + text.removeprefix(BUCKET_SCHEME))


def uri(address: str | Path) -> str:
    """What TensorFlow and Google's APIs take: /gcs/BUCKET/X is gs://BUCKET/X, file:///X is /X."""
    text = str(address).removeprefix(FILE_SCHEME)
    if is_mounted(text):
        return BUCKET_SCHEME + text.removeprefix(CLOUD_MOUNT)
    return text


def is_mounted(address: str | Path) -> bool:
    """Whether a path is in a mounted bucket, where folders cannot be renamed."""
    return str(address).startswith(CLOUD_MOUNT)


def is_bucket_uri(address: str | Path) -> bool:
    """Whether an address is in a bucket and written as Google's APIs take it."""
    return str(address).startswith(BUCKET_SCHEME)


def is_in_bucket(address: str | Path) -> bool:
    """Whether an address is in a bucket, written either way."""
    return str(address).startswith((BUCKET_SCHEME, CLOUD_MOUNT))


def bucket_of(address: str | Path) -> str:
    """`gs://BUCKET` of an address in a bucket; empty for any other."""
    if not is_in_bucket(address):
        return ""
    return BUCKET_SCHEME + uri(address).removeprefix(BUCKET_SCHEME).split("/")[0]
