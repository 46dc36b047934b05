"""Compiles the pipeline to the one YAML file that Vertex AI and the laptop run."""

import hashlib
import tempfile
from pathlib import Path

from components.image import IMAGE

SOURCE_ROOT = Path(__file__).resolve().parent.parent
IMAGE_PACKAGES = ("components", "trainer")
IMAGE_REPOSITORY = "trainyard-python"


def compile_pipeline(image: str) -> str:
    """The compiled pipeline as YAML text, with `image` as every container's image."""
    from kfp import compiler

    from pipelines.train_and_deploy import train_and_deploy

    with tempfile.TemporaryDirectory(prefix="trainyard-compile-") as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(train_and_deploy, str(path))
        return path.read_text().replace(IMAGE, image)


def default_image() -> str:
    """The image named by a digest of the source, so that changed code changes the cache's keys.

    A step's cache key covers its image's name but not the packages inside the image.
    """
    return f"{IMAGE_REPOSITORY}:src-{source_digest()}"


def source_digest() -> str:
    """Twelve hexadecimal digits of the SHA-256 of what the image holds of our source."""
    digest = hashlib.sha256()
    for package in IMAGE_PACKAGES:
        for path in sorted((SOURCE_ROOT / package).rglob("*.py")):
            digest.update(path.relative_to(SOURCE_ROOT).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
