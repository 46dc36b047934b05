"""The Docker engine of this machine, for a service that runs in containers what it is given."""

import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from vertex_local.errors import ApiError, invalid_argument, unavailable
from vertex_local.machine.docker import BRIDGE, Container, DockerError, docker

ANSWER_TIMEOUT_SECONDS = 15.0
# https://pkg.go.dev/github.com/distribution/reference, without its details
IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]*")
UNMOUNTABLE = re.compile(r"""[,"\n]""")


class EngineError(Exception):
    """Containers cannot be run here; the message says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What all containers of a service have in common.

    Attributes:
        root: The folder of the service.
        mounts: The folders that they see under the same path; the root is one of them.
    """

    root: str
    mounts: tuple[str, ...]

    def container(
        self,
        image: str,
        *,
        network: str = BRIDGE,
        host_name: str = "",
        published: tuple[int, int] | None = None,
    ) -> Container:
        """A container of this service; see `Container`."""
        return Container(
            image=image,
            root=self.root,
            mounts=self.mounts,
            network=network,
            host_name=host_name,
            published=published,
        )

    def check_image(self, image: str, *, field: str) -> None:
        """Looks whether the image is on this machine; `field` is where it is named.

        Raises:
            ApiError: INVALID_ARGUMENT, saying what to do; UNAVAILABLE if the engine is not there.
        """
        if not IMAGE.fullmatch(image):
            raise invalid_argument(f'{field} "{image}" is not the name of an image; give one.')
        try:
            docker(["docker", "image", "inspect", "--format", "ok", "--", image])
        except DockerError as error:
            raise _image_error(image, field, error) from None
        except OSError as error:
            raise unavailable(f"{field}: `docker` cannot be run: {error}") from None

    def check_folder(self, folder: Path | str, *, field: str) -> None:
        """Checks that containers see a folder.

        Raises:
            ApiError: INVALID_ARGUMENT, saying what to do.
        """
        path = os.path.normpath(folder)
        if any(Path(path).is_relative_to(mount) for mount in self.mounts):
            return
        raise invalid_argument(
            f'{field} "{folder}" is in no folder that containers see here, which are '
            f"{', '.join(self.mounts)}. Choose one of those, or start the service with --mount."
        )

    def to_json(self) -> str:
        """A text for `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Engine":
        """The engine for a process that the service has started."""
        values = json.loads(text)
        return cls(root=values["root"], mounts=tuple(values["mounts"]))


def find_engine(root: Path, mounts: Iterable[Path]) -> Engine:
    """The engine, for a service on `root`.

    Raises:
        EngineError: there is none, or a folder cannot be mounted.
    """
    if not shutil.which("docker"):
        raise EngineError(
            "--containers needs Docker, and there is no `docker` on PATH; install it (Debian: "
            "apt-get install docker.io), or leave --containers out."
        )
    try:
        docker(["docker", "version"], timeout_seconds=ANSWER_TIMEOUT_SECONDS)
    except DockerError as error:
        last_line = str(error).rpartition("\n")[2]
        raise EngineError(
            f"the Docker engine does not answer: {last_line} Start it (systemctl start docker, or "
            "dockerd), and see that this user may use it (group docker)."
        ) from None
    folders = dict.fromkeys(os.path.abspath(folder) for folder in (root, *mounts))
    for folder in folders:
        _check_mount(folder)
    return Engine(root=str(root), mounts=tuple(folders))


def _check_mount(folder: str) -> None:
    if not os.path.isdir(folder):
        raise EngineError(f"--mount {folder} is not a folder; make it first.")
    if UNMOUNTABLE.search(folder) or folder == "/":
        raise EngineError(
            f"--mount {folder} cannot be mounted under the same path; give another folder, without "
            "comma, quote or line break in its name."
        )


def _image_error(image: str, field: str, error: DockerError) -> ApiError:
    if "No such image" in str(error):
        return invalid_argument(
            f'{field} "{image}" is not on this machine, and none is fetched; build the image, or '
            f"get it with `docker pull {image}`."
        )
    return unavailable(f"{field}: the Docker engine does not answer: {error}")
