"""Compilation of the pipeline to packages: YAML files that run on Vertex AI and locally.

A package does not depend on the machine that compiled it; its image is named by the source.
"""

import contextlib
import hashlib
import json
import os
import pkgutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from components import IMAGE
from pipelines.config.run_config import RunConfig
from pipelines.dags import PIPELINES
from pipelines.package.image import SOURCE_ROOT, check_holds, source_digest

# What a compiled package depends on, besides its image and settings.
COMPILED = ("components", "pipelines", "trainer")
LIBRARIES = ("kfp", "google-cloud-pipeline-components")
NUM_KEPT = 20


def compile_pipeline(image: str, *, config: RunConfig) -> str:
    """Return the pipeline as YAML, with `image` in every container and `config` as defaults.

    Raises:
        ConfigError: the image has other code of the workload.
    """
    check_holds(image, config.workload)
    from pipelines.dags.train_and_deploy import train_and_deploy  # imports kfp and its components

    return _compiled(
        train_and_deploy,
        image,
        pipeline_name=f"train-and-deploy-{config.name}",
        pipeline_parameters=config.parameters(),
    )


def compile_once(image: str, *, config: RunConfig, folder: Path) -> str:
    """Return what `compile_pipeline` does, from `folder` if it is there: without importing KFP.

    It is kept if the folder that `folder` is in exists: a run that is refused leaves no state. A
    file that differs from the SHA-256 in its first line is compiled again.
    """
    versions = [sys.version, *(version(name) for name in LIBRARIES)]
    sources = source_digest(SOURCE_ROOT, COMPILED)
    key = json.dumps([sources, versions, image, config.name, config.parameters()], sort_keys=True)
    path = folder / f"{config.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.yaml"
    with contextlib.suppress(FileNotFoundError):
        digest, _, kept = path.read_bytes().partition(b"\n")
        if digest == _digest(kept):
            return kept.decode("utf-8")
    text = compile_pipeline(image, config=config)
    if not folder.parent.is_dir():
        return text
    folder.mkdir(mode=0o700, exist_ok=True)
    for old in sorted(folder.glob("*.yaml"), key=lambda file: file.stat().st_mtime)[:-NUM_KEPT]:
        old.unlink(missing_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    content = text.encode("utf-8")
    unfinished.write_bytes(_digest(content) + b"\n" + content)
    unfinished.replace(path)
    return text


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _compiled(pipeline: Any, image: str, **options: Any) -> str:
    from kfp import compiler

    with tempfile.TemporaryDirectory(prefix="trainyard-compile-") as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(pipeline, str(path), **options)
        return path.read_text(encoding="utf-8").replace(IMAGE, image)


def compile_other(image: str, *, name: str) -> str:
    """Return one of the other pipelines as YAML, with `image` in every container."""
    return _compiled(pkgutil.resolve_name(PIPELINES[name]), image)


def write_package(folder: Path, *, name: str, text: str) -> Path:
    """Write `NAME.yaml` to a folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path
