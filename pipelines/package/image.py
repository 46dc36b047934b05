"""Name of the image that steps, replicas and prediction servers share."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCE_ROOT = Path(__file__).resolve().parents[2]
IMAGE_REPOSITORY = "trainyard"
# The Dockerfile and what it copies; .dockerignore allows the same paths.
SOURCES = (
    "Dockerfile",
    "components",
    "requirements-gpu.lock",
    "requirements.lock",
    "trainer",
    "trainyard",
)


def default_image() -> str:
    """Return the name of the image that `make image` builds; its tag is a digest of the source.

    A step's cache key covers the name of its image but not the content, so changed code must
    change the name.
    """
    return f"{IMAGE_REPOSITORY}:{source_tag()}"


def source_tag(*, accelerator: str = "cpu") -> str:
    """Return the image's tag: `src-` and twelve hexadecimal digits, and `-gpu` for GPUs."""
    return f"src-{source_digest(SOURCE_ROOT)}{'-gpu' if accelerator == 'gpu' else ''}"


def source_digest(root: Path, names: Sequence[str] = SOURCES) -> str:
    """Return twelve hexadecimal digits of the SHA-256 of the image's sources in `root`.

    Or of other files and folders in it, by their names.
    """
    digest = hashlib.sha256()
    for path in _files(root, names):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _files(root: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        for path in sorted([root / name, *(root / name).rglob("*")]):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
