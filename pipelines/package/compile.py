"""Compiles the pipeline to packages: YAML files that Vertex AI and the laptop run.

A package holds nothing of the machine that compiled it; its image is named by the source.
"""

import tempfile
from pathlib import Path

from components.image import IMAGE
from pipelines.config import RUNS, RunConfig, named_run


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
