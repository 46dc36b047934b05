"""Options that select Vertex AI or this machine's service, and connections to either."""

import argparse
import contextlib
import glob
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.files import check_data_dir
from components.prepare_examples.settings.patterns import without_dates
from components.shared.vertex.api import EMULATOR_VARIABLE, VertexApi
from pipelines.places.local_service import check_image, local_service
from pipelines.places.target import (
    Target,
    buckets_of,
    check_state_dir,
    default_state_dir,
    local_target,
    make_state_dir,
    vertex_target,
)
from trainer import paths
from trainer.errors import ConfigError
from trainer.references import STATE_DIR_VARIABLE
from trainer.runtime.processes import ending_with_parent

if TYPE_CHECKING:
    from pipelines.places.local_service import LocalService

TARGETS = ("local", "vertex")
MAX_NOTES = 10


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the options that `target_of` reads."""
    target = parser.add_argument_group("target")
    target.add_argument(
        "--env",
        metavar="NAME",
        help="options from environments/NAME.yaml, of the workload's folder or of this one",
    )
    target.add_argument("--on", choices=TARGETS, default="local", help="%(default)s")
    target.add_argument("--project", help="Vertex AI; default: GOOGLE_CLOUD_PROJECT")
    target.add_argument("--location", help="Vertex AI; default: GOOGLE_CLOUD_REGION, us-central1")
    target.add_argument(
        "--pipeline-root",
        metavar="gs://…",
        help="Vertex AI; default: TRAINYARD_PIPELINE_ROOT; here gs://BUCKET is the folder "
        "buckets/BUCKET of the local state",
    )
    target.add_argument(
        "--state-dir",
        type=Path,
        default=default_state_dir(),
        help="local state; default: TRAINYARD_DIR, or .trainyard here",
    )


def add_containers(parser: argparse._ActionsContainer) -> None:
    """Add the option of commands that start runs or jobs."""
    parser.add_argument(
        "--containers",
        action="store_true",
        help="on this machine: run each step, replica and prediction server in a Docker container "
        "of the image (make image)",
    )


def target_of(arguments: argparse.Namespace, *, needs_bucket: bool = True) -> Target:
    """Return the target that the options select; only commands that start runs need a bucket."""
    state_dir = Path(os.path.abspath(arguments.state_dir))  # records have it without ".."
    data_dir = getattr(arguments, "data_dir", None)
    try:
        check_data_dir(data_dir or "")
    except DataError as error:
        raise ConfigError(str(error)) from error
    if arguments.on == "local":
        return local_target(state_dir, pipeline_root=arguments.pipeline_root, data_dir=data_dir)
    return vertex_target(
        state_dir,
        project=arguments.project,
        location=arguments.location,
        pipeline_root=arguments.pipeline_root,
        data_dir=data_dir,
        needs_bucket=needs_bucket,
    )


def mounts_of(arguments: argparse.Namespace, target: Target) -> list[Path]:
    """Return the folders that a command's containers need: local state and the data."""
    folders = (getattr(arguments, name, None) for name in ("data_dir", "examples_dir"))
    return [target.state_dir, *(Path(folder).absolute() for folder in folders if folder)]


def folders_of_files(patterns: Sequence[str]) -> list[Path]:
    """Return the folders of local files and patterns, for the mounts of containers."""
    folders = []
    for pattern in without_dates(patterns):
        if not paths.is_in_bucket(pattern):
            path = Path(pattern)
            while glob.has_magic(str(path)):
                path = path.parent
            folders.append(path if path.is_dir() else path.parent)
    return folders


@contextlib.contextmanager
def service_of(
    arguments: argparse.Namespace,
    target: Target,
    *,
    makes_state: bool = False,
    image: str = "",
    mounts: Sequence[Path] = (),
) -> "Iterator[LocalService | None]":
    """Use this machine's service during the block; None if the target is Vertex AI.

    With `--containers` the service runs `image`, and containers also have access to `mounts`.

    Raises:
        ConfigError: the folder of local state does not exist, unless `makes_state`.
    """
    has_containers = getattr(arguments, "containers", False)
    if arguments.on == "vertex":
        if has_containers:
            raise ConfigError("--containers is for this machine; Vertex AI always uses containers")
        yield None
        return
    if has_containers:
        check_image(image)
    if not makes_state and EMULATOR_VARIABLE not in os.environ:
        check_state_dir(target.state_dir)
    needed = [*mounts_of(arguments, target), *mounts] if has_containers else None
    make_state_dir(target.state_dir)
    with local_service(target.state_dir / "vertex", mounts=needed) as service:
        for note in service.notes[:MAX_NOTES]:  # the console has all
            print(f"trainyard: warning: {note}", file=sys.stderr)
        yield service


def has_state(arguments: argparse.Namespace) -> bool:
    """Return whether there is a place that may have resources: Vertex AI, a service, or state."""
    is_elsewhere = arguments.on == "vertex" or EMULATOR_VARIABLE in os.environ
    return is_elsewhere or (arguments.state_dir / "vertex").is_dir()


@contextlib.contextmanager
def api_of(
    arguments: argparse.Namespace, *, makes_state: bool = False, keeps_service: bool = False
) -> Iterator[VertexApi]:
    """Connect to the API of the target during the block, as `service_of`.

    With `keeps_service` this machine's service continues to run afterwards.
    """
    target = target_of(arguments, needs_bucket=False)
    with service_of(arguments, target, makes_state=makes_state) as service:
        yield target.connect()
        if service and keeps_service:
            service.keep()


def with_api(
    action: Callable[[VertexApi, argparse.Namespace], int | None], *, makes_state: bool = False
) -> Callable[[argparse.Namespace], int | None]:
    """Return the command that calls an action with the API of the target."""

    def command(arguments: argparse.Namespace) -> int | None:
        with api_of(arguments, makes_state=makes_state) as api:
            return action(api, arguments)

    return command


def run_module(
    arguments: argparse.Namespace, module: str, *words: str, timeout_seconds: float | None = None
) -> int:
    """Run a module of ours that loads a model and a user's code, in a process; return its code."""
    sys.stdout.flush()
    state_dir = arguments.state_dir.absolute()
    env = {
        paths.LOCAL_BUCKETS: str(buckets_of(state_dir)),
        **os.environ,
        STATE_DIR_VARIABLE: str(state_dir),
    }
    command = ending_with_parent(module, *words)
    return subprocess.run(command, check=False, env=env, timeout=timeout_seconds).returncode
