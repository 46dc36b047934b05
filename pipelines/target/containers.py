"""`--containers`: this machine's service runs the image instead of processes."""

import argparse
import shutil
import subprocess
from pathlib import Path

from pipelines.target.places import Target
from trainer.config.settings import ConfigError

INSPECT_TIMEOUT_SECONDS = 60


def add_containers(parser: argparse.ArgumentParser) -> None:
    """Adds the option to a command that starts runs or jobs."""
    parser.add_argument(
        "--containers",
        action="store_true",
        help="on this machine: run each step, replica and prediction server in a Docker container "
        "of the image (make image)",
    )


def mounts_of(arguments: argparse.Namespace, target: Target) -> list[Path]:
    """The folders that the containers of a command must see: local state, and data given to it."""
    given = (getattr(arguments, name, None) for name in ("data_dir", "examples_dir"))
    return [target.state_dir, *(Path(folder).absolute() for folder in given if folder)]


def check_image(image: str) -> None:
    """Looks whether the image is here; where Docker itself is not, the service will say so.

    Raises:
        ConfigError: it is not; says how to make it.
    """
    if not image or not shutil.which("docker"):
        return
    done = subprocess.run(
        ["docker", "image", "inspect", "--format", "ok", "--", image],
        check=False,
        capture_output=True,
        text=True,
        timeout=INSPECT_TIMEOUT_SECONDS,
    )
    if "No such image" in done.stderr:
        raise ConfigError(
            f"--containers: the image {image} is not on this machine; build that of this source "
            "with `make image`, or name another with --image"
        )
