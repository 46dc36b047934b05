"""Where a command acts: the options that say it, and the service on this machine if it is here."""

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from components.prepare_examples.errors import DataError
from components.prepare_examples.raw_data.sources import check_data_dir
from pipelines.target.containers import check_image, mounts_of
from pipelines.target.local_service import LocalService, local_service
from pipelines.target.places import (
    Target,
    TargetError,
    default_state_dir,
    local_target,
    make_state_dir,
    vertex_target,
)


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `target_of` reads."""
    target = parser.add_argument_group("where")
    target.add_argument("--on", choices=["local", "vertex"], default="local", help="%(default)s")
    target.add_argument("--project", help="Vertex AI; default: GOOGLE_CLOUD_PROJECT")
    target.add_argument("--location", help="Vertex AI; default: GOOGLE_CLOUD_REGION, us-central1")
    target.add_argument(
        "--pipeline-root", metavar="gs://…", help="Vertex AI; default: TRAINYARD_PIPELINE_ROOT"
    )
    target.add_argument(
        "--state-dir",
        type=Path,
        default=default_state_dir(),
        help="local state; default: TRAINYARD_DIR, or .trainyard here",
    )


def target_of(arguments: argparse.Namespace, *, needs_bucket: bool = True) -> Target:
    """The target that the options name; one that is only looked at needs no bucket."""
    state_dir = arguments.state_dir.absolute()
    data_dir = getattr(arguments, "data_dir", None)
    try:
        check_data_dir(data_dir or "")
    except DataError as error:
        raise TargetError(str(error)) from error
    if arguments.on == "local":
        return local_target(state_dir, data_dir=data_dir)
    return vertex_target(
        state_dir,
        project=arguments.project,
        location=arguments.location,
        pipeline_root=arguments.pipeline_root,
        data_dir=data_dir,
        needs_bucket=needs_bucket,
    )


@contextlib.contextmanager
def service_of(
    arguments: argparse.Namespace, target: Target, *, image: str = ""
) -> Iterator[LocalService | None]:
    """This machine's service for as long as the block lasts; nothing when the target is Vertex.

    `image` is what the service is to run where the command has `--containers`.
    """
    has_containers = getattr(arguments, "containers", False)
    if arguments.on == "vertex":
        if has_containers:
            raise TargetError("--containers is for this machine; Vertex AI runs nothing else")
        yield None
        return
    if has_containers:
        check_image(image)
    mounts = mounts_of(arguments, target) if has_containers else None
    make_state_dir(target.state_dir)
    with local_service(target.state_dir / "vertex", mounts=mounts) as service:
        yield service
