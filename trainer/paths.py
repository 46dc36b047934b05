"""Addresses of files: gs:// for TensorFlow and Google's APIs, /gcs/ for Python and Beam.

Vertex AI mounts every bucket below /gcs/ in the containers of pipelines and jobs, though not in
prediction servers. https://cloud.google.com/vertex-ai/docs/training/cloud-storage-file-system
On this machine buckets are folders, which the local service names.
"""

import os
from pathlib import Path

BUCKET_SCHEME = "gs://"
CLOUD_MOUNT = "/gcs/"
LOCAL_BUCKETS = "VERTEX_LOCAL_BUCKETS"  # a variable of the local service and its processes
FILE_SCHEME = "file://"


def local_path(address: str | Path) -> Path:
    """Return a path that Python can open: /gcs/BUCKET/X for gs://BUCKET/X, /X for file:///X.

    Below the local service it is the file BUCKET/X of its folder of buckets.

    Raises:
        ValueError: the address is in a bucket, and no buckets are mounted here.
    """
    text = str(address)
    if not text.startswith(BUCKET_SCHEME):
        return Path(text.removeprefix(FILE_SCHEME))
    mount = os.environ.get(LOCAL_BUCKETS, CLOUD_MOUNT)
    if not Path(mount).is_dir():
        raise ValueError(
            f"{text}: buckets are reached through {mount}, which Vertex AI mounts and this "
            "machine does not have; give a local folder"
        )
    return Path(mount, text.removeprefix(BUCKET_SCHEME))


def uri(address: str | Path) -> str:
    """Return the address for TensorFlow and Google's APIs: gs://BUCKET/X for /gcs/BUCKET/X."""
    text = str(address).removeprefix(FILE_SCHEME)
    if is_mounted(text):
        return BUCKET_SCHEME + text.removeprefix(CLOUD_MOUNT)
    return text


def is_mounted(address: str | Path) -> bool:
    """Return True for a path in a mounted bucket, where folders cannot be renamed."""
    return str(address).startswith(CLOUD_MOUNT)


def is_bucket_uri(address: str | Path) -> bool:
    """Return True for gs:// addresses."""
    return str(address).startswith(BUCKET_SCHEME)


def is_in_bucket(address: str | Path) -> bool:
    """Return True for an address in a bucket, gs:// or mounted."""
    return str(address).startswith((BUCKET_SCHEME, CLOUD_MOUNT))


def bucket_of(address: str | Path) -> str:
    """Return `gs://BUCKET` of an address in a bucket, "" of any other."""
    if not is_in_bucket(address):
        return ""
    return BUCKET_SCHEME + uri(address).removeprefix(BUCKET_SCHEME).split("/")[0]
