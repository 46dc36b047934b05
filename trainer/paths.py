"""Addresses of files: gs:// for TensorFlow and Google's APIs, /gcs/ for Python and Beam.

Vertex AI mounts every bucket below /gcs/ in the containers of pipelines and jobs, though not in
prediction servers. https://cloud.google.com/vertex-ai/docs/training/cloud-storage-file-system
On this machine buckets are folders, which the local service names.
"""

import os
from pathlib import Path

from trainer.errors import ConfigError

BUCKET_SCHEME = "gs://"
CLOUD_MOUNT = "/gcs/"
LOCAL_BUCKETS = "VERTEX_LOCAL_BUCKETS"  # a variable of the local service and its processes
FILE_SCHEME = "file://"
# Signs of access to Cloud Storage: without one TensorFlow looks for 20 s for a machine of Google's.
ACCESS_VARIABLES = [
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
    "CLOUD_ML_PROJECT_ID",
    "GCE_METADATA_HOST",
    "NO_GCE_CHECK",
    "KUBERNETES_SERVICE_HOST",
]
ACCESS_FILES = (CLOUD_MOUNT, "~/.config/gcloud/application_default_credentials.json")
MACHINE_FILE = Path("/sys/class/dmi/id/product_name")


def local_path(address: str | Path) -> Path:
    """Return a path that Python can open: /gcs/BUCKET/X for gs://BUCKET/X, /X for file:///X.

    Below the local service it is the file BUCKET/X of its folder of buckets.

    Raises:
        ConfigError: the address is in a bucket, and no buckets are mounted here.
    """
    text = str(address)
    if not text.startswith(BUCKET_SCHEME):
        return Path(text.removeprefix(FILE_SCHEME))
    mount = os.environ.get(LOCAL_BUCKETS, CLOUD_MOUNT)
    if not Path(mount).is_dir():
        raise ConfigError(
            f"{text}: buckets are reached through {mount}, which Vertex AI mounts and this "
            "machine does not have; give a local folder"
        )
    return Path(mount, text.removeprefix(BUCKET_SCHEME))


def opened(address: str) -> str:
    """Return the address by which TensorFlow opens a file or folder in this process.

    With a folder of buckets, which the local service names, it is a path.

    Raises:
        ConfigError: it is in a bucket, and this machine has neither that nor access to buckets.
    """
    text = uri(address)
    if not is_bucket_uri(text):
        return text
    if os.environ.get(LOCAL_BUCKETS):
        return str(local_path(text))
    is_googles = MACHINE_FILE.is_file() and "Google" in MACHINE_FILE.read_text()
    has_files = any(Path(file).expanduser().exists() for file in ACCESS_FILES)
    if not (is_googles or has_files or any(map(os.environ.get, ACCESS_VARIABLES))):
        raise ConfigError(
            f"{text}: this machine has no Google credentials; log in with gcloud auth"
            f" application-default login, or set {LOCAL_BUCKETS} to a folder whose folders are the"
            " buckets, such as .trainyard/buckets (for a public bucket: NO_GCE_CHECK=true)"
        )
    return text


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
