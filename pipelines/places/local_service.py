"""Connection to this machine's service, started if it does not run; check of its image."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pipelines
from pipelines.errors import LocalServiceError
from pipelines.places.target import buckets_of
from trainer import paths
from trainer.errors import ConfigError
from trainer.references import STATE_DIR_VARIABLE

if TYPE_CHECKING:
    from vertex_local.client import LocalService as LocalService  # noqa: PLC0414  exported

# Slow imports: of the runner and light steps, then of replicas and prediction servers. The
# environment may have other lists.
PRELOAD = "kfp.local,kfp.dsl.executor_main tensorflow"
PRELOAD_VARIABLE = "TRAINYARD_PRELOAD"
INSPECT_TIMEOUT_SECONDS = 60
SOURCE = Path(pipelines.__file__).parents[1] / "vertex_local"


@contextlib.contextmanager
def local_service(
    root: Path, *, mounts: Sequence[Path] | None = None, python: str = ""
) -> Iterator["LocalService"]:
    """Use the service on `root` during the block; start it, with `python`, if it does not run.

    With `mounts` it runs containers that have access to these folders.

    `VERTEX_EMULATOR_HOST` directs the clients created inside the block to the service. A service
    started by a command stops with its last user, unless one of the users called `keep()`.

    Raises:
        ServiceError: vertex-local is not installed, or its service cannot be used.
    """
    try:
        from vertex_local import client
    except ImportError as error:  # of vertex_local only the rules may be there
        raise LocalServiceError(_not_installed()) from error

    preload = os.environ.get(PRELOAD_VARIABLE, PRELOAD) if mounts is None else ""
    buckets = buckets_of(root.absolute().parent)
    options = [*preload_flags(preload), "--buckets", str(buckets)]
    service = client.LocalService(root, options=options, mounts=mounts, python=python)
    with contextlib.ExitStack() as stack:
        stack.callback(service.leave)
        # By it the service's processes know the code of own runs: `is_own_code`.
        stack.enter_context(environment(**{STATE_DIR_VARIABLE: str(root.absolute().parent)}))
        try:
            service.join()
        except client.ServiceError as error:
            raise LocalServiceError(str(error)) from error
        reached = {
            client.EMULATOR_VARIABLE: service.host,
            client.TOKEN_VARIABLE: service.token,
            paths.LOCAL_BUCKETS: str(buckets),
        }
        if storage := client.announced(root).get("storage"):  # else a plan reads real buckets
            reached["STORAGE_EMULATOR_HOST"] = storage
        stack.enter_context(environment(**reached))
        yield service


def runs_on(root: Path) -> bool:
    """Return whether the service that `VERTEX_EMULATOR_HOST` names is that of a root."""
    from vertex_local import client

    host = os.environ.get(client.EMULATOR_VARIABLE, "")
    return bool(client.announced(root).get("url") == f"http://{host}")


def service_start(root: Path) -> float:
    """Return when the service that runs on a root was started, in seconds; 0 if none runs."""
    from vertex_local import client

    is_running = client.service_pid(root) is not None and client.announced(root)
    return (root / client.ADDRESS_FILE).stat().st_mtime if is_running else 0.0


def preload_flags(stages: str = PRELOAD) -> list[str]:
    """Return the flags of `vertex-local serve` for lists of modules, divided by spaces."""
    return [word for modules in stages.split() for word in ("--preload", modules)]


def _not_installed() -> str:
    wheel = "the file dist/vertex_local-VERSION-py3-none-any.whl that `make wheels` writes"
    source = str(SOURCE) if (SOURCE / "pyproject.toml").exists() else wheel
    return (
        f"runs on this machine need vertex-local, which is not installed; install {source} with "
        f"{sys.executable} -m pip install, or run on Vertex AI with --on vertex"
    )


@contextlib.contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Set variables of the environment during the block; None removes one."""
    before = {name: os.environ.get(name) for name in values}

    def change(wanted: Mapping[str, str | None]) -> None:
        for name, value in wanted.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    change(values)
    try:
        yield
    finally:
        change(before)


def check_image(image: str) -> None:
    """Check that an image is on this machine, if Docker is; the service reports missing Docker.

    Raises:
        ConfigError: the image is not there.
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
            f"--containers: the image {image} is not on this machine; build it with `make image`, "
            "a folder's own with `make image PROJECT=FOLDER`, or name another with --image"
        )
