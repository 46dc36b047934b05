"""Name of the image that steps, replicas and prediction servers share."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pipelines.projects.project import REQUIREMENTS, Snapshot
from trainer.errors import ConfigError
from trainer.references import SNAPSHOT, files_digest
from trainer.workloads.loading import IMAGE_DIR

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
# The snapshot at the end of a tag.
IN_IMAGE = re.compile(rf":src-[0-9a-f]+(?:-gpu)?-(?P<snapshot>{SNAPSHOT.pattern})$")
# Packages of the base image keep their versions: pip fails if a requirement needs another one.
INSTALL = """\
COPY workload/*.txt /tmp/requirements/
RUN pip freeze --all > /tmp/constraints.txt \\
    && pip install --no-cache-dir --disable-pip-version-check --constraint /tmp/constraints.txt \\
        --requirement /tmp/requirements/requirements.txt \\
    && rm -r /tmp/constraints.txt /tmp/requirements
"""
DOCKERFILE = """\
# {name}: its packages first, which change less than its code.
FROM {base}
ARG RUN_AS=trainyard
USER root
{install}COPY workload {folder}
RUN python -m compileall -q {folder}
USER ${{RUN_AS}}
"""
_ignored = shutil.ignore_patterns("__pycache__")


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


def project_image(
    reference: str, *, repository: str = IMAGE_REPOSITORY, accelerator: str = "cpu"
) -> str:
    """Return the name of the image of a snapshot, NAME-DIGEST; its tag has both digests."""
    return f"{repository}:{source_tag(accelerator=accelerator)}-{reference}"


def image_of(workload: str) -> str:
    """Return the image that runs a workload: its project's image, or this source's."""
    name = Path(workload).name
    if SNAPSHOT.fullmatch(name):
        return project_image(name)
    return f"{IMAGE_REPOSITORY}:{source_tag()}"


def is_of_this_source(image: str) -> bool:
    """Return whether an image is this source's, or a project's on it."""
    base = f"{IMAGE_REPOSITORY}:{source_tag()}"
    return image == base or image.startswith(f"{base}-")


def check_holds(image: str, workload: str) -> None:
    """Check that an image that names a project's snapshot has the snapshot of this run.

    Raises:
        ConfigError: it has another one of the same project.
    """
    wanted = SNAPSHOT.fullmatch(workload)
    built = IN_IMAGE.search(image)
    if wanted and built and built["name"] == wanted["name"] and built["snapshot"] != workload:
        raise ConfigError(
            f"--image {image} has {built['snapshot']}, but the code is {workload} now; build and "
            "push it again (make push PROJECT=FOLDER REPOSITORY=…), or undo the change"
        )


def dockerfile(snapshot: Snapshot, *, base: str) -> str:
    """Return the Dockerfile of a project's image; its context has the code in `workload/`."""
    return DOCKERFILE.format(
        name=snapshot.reference,
        base=base,
        install=INSTALL if (snapshot.folder / REQUIREMENTS).is_file() else "",
        folder=f"{IMAGE_DIR}/{snapshot.reference}",
    )


def build(snapshot: Snapshot, *, base: str, image: str) -> None:
    """Build the image of a project on the image `base`.

    Raises:
        ConfigError: there is no Docker, or the build failed; Docker's output has the reason.
    """
    if not shutil.which("docker"):
        raise ConfigError(
            "--build needs a Docker engine, and none is on PATH: install docker.io, or build where"
            " one runs; runs on this machine need no image, those of Vertex AI do"
        )
    with tempfile.TemporaryDirectory(prefix="trainyard-image-") as folder:
        shutil.copytree(snapshot.folder, Path(folder, "workload"), ignore=_ignored)
        Path(folder, "Dockerfile").write_text(dockerfile(snapshot, base=base), encoding="utf-8")
        command = ["docker", "build", "--tag", image, folder]
        code = subprocess.run(command, check=False, env=os.environ).returncode
    if code:
        raise ConfigError(
            f"docker build failed (exit code {code}); see above. It needs the image {base}, which "
            "`make image` builds"
        )
