"""Name of the image that steps, replicas and prediction servers share."""

from collections.abc import Sequence
from pathlib import Path

from trainer.references import files_digest

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
    paths = (path for name in names for path in sorted([root / name, *(root / name).rglob("*")]))
    files = (path for path in paths if path.is_file() and "__pycache__" not in path.parts)
    return files_digest(root, files)
