"""SHA-256 of each file of a model, in a file beside them: bytes that were not exported are refused.

    {"saved_model.pb": "1930ac5e…", "variables/variables.index": "38855cc4…", …}

The export writes it, and nothing changes it afterwards. Another program's model has none.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainer import paths
from trainer.errors import InputError

DIGESTS_FILE = "digests.json"
COPY_AGAIN = "export or copy the model again, or train it again with trainyard run --no-cache"
_SHA_256 = re.compile("[0-9a-f]{64}")
_CHUNK = 1 << 20


def write_digests(model_dir: str, names: Iterable[str]) -> None:
    """Write the digests of a model's files."""
    digests = {name: file_digest(f"{model_dir}/{name}") for name in sorted(names)}
    with _opened(f"{model_dir}/{DIGESTS_FILE}", "wb") as file:
        file.write(json.dumps(digests).encode())


def check_files(model_dir: str) -> dict[str, str]:
    """Compare the files of a model with their digests, and return these; {} of a model without any.

    Raises:
        InputError: a file is missing or differs; has its path.
    """
    path = f"{model_dir.rstrip('/')}/{DIGESTS_FILE}"
    if not _exists(path):
        return {}
    with _opened(path, "rb") as file:
        digests = parse_digests(file.read(), path=path)
    for name, digest in digests.items():
        path = f"{model_dir.rstrip('/')}/{name}"
        check_digest(path, file_digest(path) if _exists(path) else "", digest)
    return digests


def check_digest(path: str, actual: str, expected: str) -> None:
    """Compare the digest of a file, "" of a missing one, with its entry in the digests.

    Raises:
        InputError: they differ.
    """
    if actual != expected:
        problem = "differs by its SHA-256 from what was written" if actual else "is missing"
        raise InputError(f"{path} {problem}; {COPY_AGAIN}")


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with _opened(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def parse_digests(content: bytes, *, path: str) -> dict[str, str]:
    """Return the content of a file of digests; InputError if it is damaged."""
    try:
        digests: dict[str, str] = json.loads(content)
        is_whole = bool(digests) and all(map(_SHA_256.fullmatch, digests.values()))
    except (ValueError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise InputError(f"{path} is damaged: it has no SHA-256 of each file; {COPY_AGAIN}")
    return digests


def combined(digests: dict[str, str]) -> str:
    """Return the SHA-256 of names and digests, in the order of the files' paths."""
    digest = hashlib.sha256()
    for name in sorted(digests, key=Path):
        digest.update(name.encode() + b"\0" + bytes.fromhex(digests[name]))
    return digest.hexdigest()


def _opened(path: str, mode: str) -> Any:
    if paths.is_bucket_uri(path):
        import tensorflow as tf

        return tf.io.gfile.GFile(path, mode)
    return Path(path).open(mode)


def _exists(path: str) -> bool:
    if paths.is_bucket_uri(path):
        import tensorflow as tf

        return bool(tf.io.gfile.exists(path))
    return Path(path).is_file()
