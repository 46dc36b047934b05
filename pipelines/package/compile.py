"""Compilation of the pipeline to packages: YAML files that run on Vertex AI and locally.

A package does not depend on the machine that compiled it; its image is named by the source.
"""

import tempfile
from pathlib import Path

from components.image import IMAGE
from pipelines.config import RunConfig


def compile_pipeline(image: str, *, config: RunConfig) -> str:
    """Return the pipeline as YAML, with `image` in every container and `config` as defaults."""
    from kfp import compiler

    from pipelines.train_and_deploy import train_and_deploy  # imports kfp and its components

    with tempfile.TemporaryDirectory(prefix="trainyard-compile-") as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(
            train_and_deploy,
            str(path),
            pipeline_name=f"train-and-deploy-{config.name}",
            pipeline_parameters=config.parameters(),
        )
        return path.read_text(encoding="utf-8").replace(IMAGE, image)


def write_package(folder: Path, *, image: str, config: RunConfig) -> Path:
    """Write `WORKLOAD.yaml` to a folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{config.name}.yaml"
    path.write_text(compile_pipeline(image, config=config), encoding="utf-8")
    return path
