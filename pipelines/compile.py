"""Compiles the pipeline to packages: YAML files that Vertex AI and the laptop run.

A package holds nothing of the machine that compiled it; its image is named by the source.
"""

import hashlib
import tempfile
from pathlib import Path

from components.image import IMAGE
from pipelines.config import RUNS, RunConfig, named_run

SOURCE_ROOT = Path(__file__).resolve().parent.parent
IMAGE_PACKAGES = ("components", "trainer")
IMAGE_REPOSITORY = "trainyard-python"


def compile_pipeline(image: str, *, config: RunConfig) -> str:
    """The pipeline as YAML text, with `image` as every container's and `config` as its defaults."""
    from kfp import compiler

    from pipelines.train_and_deploy import train_and_deploy

    with tempfile.TemporaryDirectory(prefix="trainyard-compile-") as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(
            train_and_deploy,
            str(path),
            pipeline_name=f"train-and-deploy-{config.workload}",
            pipeline_parameters=config.parameters(),
        )
        return path.read_text(encoding="utf-8").replace(IMAGE, image)


def write_packages(folder: Path, *, image: str, workloads: tuple[str, ...] = ()) -> list[Path]:
    """Writes a package for each workload (default: all), `mnist.yaml`; answers their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for workload in workloads or tuple(RUNS):
        path = folder / f"{workload}.yaml"
        path.write_text(compile_pipeline(image, config=named_run(workload)), encoding="utf-8")
        written.append(path)
    return written


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
