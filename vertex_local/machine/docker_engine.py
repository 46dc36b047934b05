"""Docker engine of this machine, for a service that runs its processes in containers."""

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vertex_local.errors import ApiError, StartError, invalid_argument
from vertex_local.machine.docker import Container, docker

VERSION_TIMEOUT_SECONDS = 15.0
# https://pkg.go.dev/github.com/distribution/reference, simplified
IMAGE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]*")
UNMOUNTABLE = re.compile(r"""[,"\n]""")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Options shared by all containers of a service; its root is one of the `mounts`."""

    root: str
    mounts: tuple[str, ...]

    def container(self, image: str, **options: Any) -> Container:
        """Return a container of this service, with the network options of `Container`."""
        return Container(image=image, root=self.root, mounts=self.mounts, **options)

    def check_image(self, image: str, *, field: str) -> None:
        """Check that an image is on this machine; errors name the request's `field`.

        Raises:
            ApiError: INVALID_ARGUMENT with the remedy; UNAVAILABLE if the engine does not respond.
        """
        if not IMAGE_NAME.fullmatch(image):
            raise invalid_argument(f'{field} "{image}" is not a valid image name.')
        try:
            docker(["docker", "image", "inspect", "--format", "ok", "--", image])
        except OSError as error:
            if "No such image" not in str(error):
                raise ApiError(
                    "UNAVAILABLE", f"{field}: Docker does not respond: {error}"
                ) from None
            raise invalid_argument(
                f'{field} "{image}" is not on this machine, and images are not pulled; build it, '
                f"or get it with `docker pull {image}`."
            ) from None

    def check_folder(self, folder: Path | str, *, field: str) -> None:
        """Check that a folder is mounted in containers; errors name the request's `field`.

        Raises:
            ApiError: INVALID_ARGUMENT with the remedy.
        """
        path = os.path.normpath(folder)
        if any(Path(path).is_relative_to(mount) for mount in self.mounts):
            return
        raise invalid_argument(
            f'{field} "{folder}" is not mounted in containers; mounted folders: '
            f"{', '.join(self.mounts)}. Choose one of those, or start the service with --mount."
        )

    def to_json(self) -> str:
        """Return the engine as JSON, for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Engine":
        """Return the engine of `to_json`, in a process that the service has started."""
        values = json.loads(text)
        return cls(root=values["root"], mounts=tuple(values["mounts"]))


def find_engine(root: Path, mounts: Iterable[Path]) -> Engine:
    """Return the engine for a service on `root`.

    Raises:
        StartError: It does not respond, or a folder cannot be mounted.
    """
    if not shutil.which("docker"):
        raise StartError(
            "--containers needs Docker, and `docker` is not on PATH; install it (Debian: "
            "apt-get install docker.io), or omit --containers."
        )
    try:
        docker(["docker", "version"], timeout_seconds=VERSION_TIMEOUT_SECONDS)
    except OSError as error:
        last_line = str(error).rpartition("\n")[2]
        raise StartError(
            f"the Docker engine does not respond: {last_line} Start it (systemctl start docker, or "
            "dockerd), and check that this user may use it (group docker)."
        ) from None
    folders = dict.fromkeys(os.path.abspath(folder) for folder in (root, *mounts))
    for folder in folders:
        _check_mount(folder)
    return Engine(root=str(root), mounts=tuple(folders))


def _check_mount(folder: str) -> None:
    if not os.path.isdir(folder):
        raise StartError(f"--mount {folder} is not a folder; create it first.")
    if UNMOUNTABLE.search(folder) or folder == "/":
        raise StartError(
            f"--mount {folder} cannot be mounted under the same path; choose another "
            "folder, without comma, quote or line break in its name."
        )
