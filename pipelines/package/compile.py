"""Compilation of the pipeline to packages: YAML files that run on Vertex AI and locally.

A package does not depend on the machine that compiled it; its image is named by the source.
"""

import tempfile
from pathlib import Path

from components.image import IMAGE
from pipelines.config import RUNS, RunConfig, named_run


def compile_pipeline(image: str, *, config: RunConfig) -> str:
    """Return the pipeline as YAML, with `image` in every container and `config` as defaults."""
    from kfp import compiler

    from pipelines.train_and_deploy import train_and_deploy  # imports kfp and its components

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
    """Write `WORKLOAD.yaml` for each workload (default: all); return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for workload in workloads or tuple(RUNS):
        path = folder / f"{workload}.yaml"
        path.write_text(compile_pipeline(image, config=named_run(workload)), encoding="utf-8")
        paths.append(path)
    return paths
