"""Buckets of Cloud Storage as folders: gs://BUCKET/X is the file BUCKET/X below one folder.

`vertex-local serve --buckets` names the folder; a variable hands it on to the service's processes.
"""

import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath

from vertex_local.machine import system

VARIABLE = "VERTEX_LOCAL_BUCKETS"
SCHEME = "gs://"
MOUNT = Path("/gcs")  # where Vertex AI mounts buckets, for programs that know no gs://
# https://cloud.google.com/storage/docs/buckets#naming
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
REMEDY = "start the service with --buckets DIR, where gs://BUCKET is the folder DIR/BUCKET"


def local_path(uri: str) -> Path | None:
    """Return the path of a gs:// URI; None without buckets, and for a name that leaves its bucket.

    gs:///X is /X: Google's SDK makes the former of the latter.
    """
    name, _, rest = uri.removeprefix(SCHEME).partition("/")
    if "\0" in rest or ".." in PurePosixPath(rest).parts:
        return None
    if not name:
        return Path("/", rest)
    folder = os.environ.get(VARIABLE)
    return Path(folder, name, rest) if folder and NAME.fullmatch(name) else None


def uri_of(path: str) -> str:
    """Return the gs:// URI of a path in a bucket, and any other text as it is."""
    folder = os.environ.get(VARIABLE)
    is_inside = folder and path.startswith(f"{folder}/")
    return SCHEME + path.removeprefix(f"{folder}/") if is_inside else path


def mount() -> None:
    """Show the buckets below /gcs in this process's mount namespace, if there is such a folder."""
    folder = os.environ.get(VARIABLE)
    if folder and MOUNT.is_dir() and not MOUNT.is_symlink():
        with suppress(OSError):
            system.bind(folder, str(MOUNT))
