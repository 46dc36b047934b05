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
NAME = re.compile(
    r"(?!(?:\d+\.){3}\d+\Z)(?=[a-z0-9].{1,220}[a-z0-9]\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*"
)
NAME_RULES = (
    "the name of a bucket has 3 to 63 lowercase letters, digits, dashes and underscores, or several"
    " such parts with dots between, 222 characters in all; it starts and ends with a letter or a"
    " digit, and is no IP address"
)


def local_path(uri: str) -> Path | None:
    """Return the path of a gs:// URI; None without buckets, and for a name that leaves its bucket.

    gs:///X is /X: Google's SDK makes the former of the latter.
    """
    name, _, rest = uri.removeprefix(SCHEME).partition("/")
    if "\0" in rest or ".." in PurePosixPath(rest).parts:
        return None
    if not name:
        return Path("/", rest) if rest else None
    folder = os.environ.get(VARIABLE)
    return Path(folder, name, rest) if folder and NAME.fullmatch(name) else None


def problem_of(uri: str) -> str:
    """Return why a gs:// URI has no path here."""
    if VARIABLE not in os.environ:
        return (
            "is not on this machine; start the service with --buckets DIR, where gs://BUCKET is the"
            " folder DIR/BUCKET"
        )
    name = uri.removeprefix(SCHEME).partition("/")[0]
    return "leads out of its bucket" if NAME.fullmatch(name) else f"names no bucket: {NAME_RULES}"


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
