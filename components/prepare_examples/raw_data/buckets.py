"""Listing of Cloud Storage objects that match a pattern.

Not tested against the real service: the tests use a fake client.
"""

import re
from fnmatch import translate
from typing import Any, NamedTuple

from trainer import paths

MAGIC = re.compile(r"[*?[]")


class Object(NamedTuple):
    """An object; its generation changes with its content."""

    uri: str
    num_bytes: int
    generation: int


def find_objects(pattern: str) -> list[Object]:
    """Return the objects that match a pattern of gs:// or /gcs/, or are in such a folder, sorted.

    Unlike in Python's glob, `*` matches slashes too: the result includes at least the files that
    glob finds in a mounted bucket.

    Raises:
        OSError: Cloud Storage cannot be reached, or refuses.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    bucket, _, name = paths.uri(pattern).removeprefix(paths.BUCKET_SCHEME).partition("/")
    magic = MAGIC.search(name)
    prefix = name[: magic.start()] if magic else name
    pattern_of_names = name.replace("**/", "*")
    folder = f"{pattern_of_names.rstrip('/')}/*"
    wanted = re.compile(f"{translate(pattern_of_names)}|{translate(folder)}")
    try:
        blobs = connect().list_blobs(bucket, prefix=prefix)
        objects = [
            Object(f"{paths.BUCKET_SCHEME}{bucket}/{blob.name}", blob.size, blob.generation)
            for blob in blobs
            if wanted.match(blob.name) and not blob.name.endswith("/")
        ]
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(
            f"{pattern}: {error}; check the bucket's name, and that this step's account has "
            "roles/storage.objectViewer on it"
        ) from error
    return sorted(objects)


def connect() -> Any:
    """Return a client of Cloud Storage."""
    from google.cloud import storage

    return storage.Client()
