"""Environments of a user, shared by all services: FOLDER/KEY is complete, or does not exist.

An environment is built beside its place and then renamed. Two steps may build the same one at a
time, which costs little: uv has the packages in its cache, and links their files.
"""

import ast
import ensurepip
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from vertex_local.machine.files import make_private
from vertex_local.processes.environments.commands import own_kfp
from vertex_local.processes.environments.layer import site_of

# Variables of uv (https://docs.astral.sh/uv/reference/environment) by settings of pip.
VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "constraint": "UV_CONSTRAINT",
    "cert": "SSL_CERT_FILE",
}
SCOPES = ("global", "install", ":env:")  # of settings of pip; the last comes first
FOLDER_VARIABLE = "VERTEX_LOCAL_ENVIRONMENTS"
DRAFT_PREFIX = "building-"
DRAFT_SECONDS = 24 * 3600.0  # a draft that is older is a killed build's
UNUSED_SECONDS = 30 * 24 * 3600.0
KEY_LENGTH = 12


def create(prefix: Path) -> None:
    """Create a virtual environment with pip and setuptools, as in Python's container images.

    The wheels in Python's own `ensurepip` are unpacked: installing them takes longer than most
    packages of steps do.
    """
    wheels = sorted(Path(ensurepip.__file__).parent.glob("_bundled/*.whl"))
    venv.EnvBuilder(with_pip=not wheels, symlinks=True).create(prefix)
    with (prefix / "pyvenv.cfg").open("a") as config:
        config.write("relocatable = true\n")  # so uv writes scripts that outlive a renaming
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site_of(prefix))


def commands(prefix: Path, installs: tuple[tuple[str, ...], ...]) -> Iterator[list[str]]:
    """Yield the command of each `pip install`, and at last the one for kfp, unless it is there.

    kfp starts every step; in a container it may be part of the image.
    """
    from uv import find_uv_bin  # only steps with packages need it

    options = ["--no-progress", "--color", "never", "--compile-bytecode"]
    options += ["--no-index"] if "no-index" in pip_settings() else []
    python = str(prefix / "bin" / "python")
    install = [find_uv_bin(), "pip", "install", "--python", python, *options]
    for arguments in installs:
        yield [*install, *arguments]
    if not any(metadata.distributions(name="kfp", path=[site_of(prefix)])):
        yield [*install, own_kfp(), "--no-deps"]


def variables() -> dict[str, str]:
    """Return the variables of uv; those that the user has set come before pip's settings."""
    settings = pip_settings()
    found = {VARIABLES[key]: settings[key] for key in VARIABLES.keys() & settings.keys()}
    if "UV_FIND_LINKS" in found:
        found["UV_FIND_LINKS"] = found["UV_FIND_LINKS"].replace(" ", ",")
    found["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip: the newest of all indexes
    return {**found, **{name: os.environ[name] for name in found if name in os.environ}}


@cache
def pip_settings() -> dict[str, str]:
    """Return the settings of pip, by name without its scope."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = [line.partition("=") for line in listed.splitlines()]  # global.find-links='/wheels'
    return {
        key.rpartition(".")[2]: str(ast.literal_eval(value))
        for scope in SCOPES
        for key, _, value in lines
        if key.startswith(f"{scope}.")
    }


def prefix_of(installs: tuple[tuple[str, ...], ...]) -> Path:
    """Return the place of an environment, named by a digest of requirements, kfp and Python.

    Files and folders among the requirements enter with their sizes and times.
    """
    files = [_signature(Path(word)) for arguments in installs for word in arguments]
    python = [sys.version, os.path.realpath(sys.executable), platform.machine()]
    text = json.dumps(["uv", installs, files, own_kfp(), python])
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.environ.get(FOLDER_VARIABLE) or Path(cache, "vertex-local", "environments")
    return Path(folder).absolute() / hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def is_complete(prefix: Path) -> bool:
    """Return whether an environment exists, and record its use."""
    with suppress(FileNotFoundError):
        os.utime(prefix)
        return True
    return False


@contextmanager
def building(prefix: Path) -> Iterator[Path]:
    """Yield a draft of an environment, which takes its place after the block, unless that raises.

    Removes the environments that no step has used for 30 days.
    """
    make_private(prefix.parent)
    _remove_old(prefix.parent)
    draft = Path(tempfile.mkdtemp(prefix=DRAFT_PREFIX, dir=prefix.parent))
    try:
        yield draft
        try:
            draft.rename(prefix)
        except OSError:
            if not prefix.exists():  # otherwise another step has built it meanwhile
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _remove_old(folder: Path) -> None:
    for path in folder.iterdir():
        limit = DRAFT_SECONDS if path.name.startswith(DRAFT_PREFIX) else UNUSED_SECONDS
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - limit:
                shutil.rmtree(path, ignore_errors=True)


def _signature(path: Path) -> list[tuple[str, int, int]]:
    """Return size and time of a file, or of all files in a folder; else nothing."""
    try:
        paths = sorted(path.rglob("*")) if path.is_dir() else [path]
        statuses = [(str(file), file.stat()) for file in paths if file.is_file()]
    except (OSError, ValueError):
        return []
    return [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]
