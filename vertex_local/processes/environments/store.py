"""Environments of a user, shared by all services: FOLDER/KEY, which is usable once it is complete.

FOLDER/KEY.lock is held while a step builds it, and has the time of its last use.
"""

import ensurepip
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from vertex_local.machine.files import make_private
from vertex_local.processes.environments.commands import own_kfp
from vertex_local.processes.environments.layer import Interpreter

logger = logging.getLogger(__name__)

FOLDER_VARIABLE = "VERTEX_LOCAL_ENVIRONMENTS"
COMPLETE, LOCK_SUFFIX = "complete", ".lock"
UNUSED_SECONDS = 30 * 24 * 3600.0
KEY_LENGTH = 12


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Content of an environment.

    Attributes:
        python: Its interpreter.
        script: Shell script that installs its packages by `python3 -m pip`; empty if it has none.
        has_kfp: Whether it has the service's kfp, unless the script installs another. kfp starts
            every Python component; in a container it may be part of the image.
    """

    python: Interpreter
    script: str
    has_kfp: bool

    @property
    def prefix(self) -> Path:
        """Place of the environment, named by a digest of its content.

        The interpreter, and files and folders that the script names, enter with sizes and times.
        """
        paths = [self.python.path, *re.findall(r"'([^']*)'", self.script)]
        kfp = self.has_kfp and own_kfp()
        text = json.dumps([self.script, kfp, [_signature(Path(path)) for path in paths]])
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = os.environ.get(FOLDER_VARIABLE) or Path(cache, "vertex-local", "environments")
        return Path(folder).absolute() / hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


@cache  # the difference is logged once
def interpreter(minor: str) -> Interpreter:
    """Return Python 3.MINOR; the service's own if that is empty, or not on this machine's PATH."""
    own, name = Interpreter.of(Path(sys.prefix)), f"python3.{minor}"
    if not minor or name == own.name:
        return own
    with suppress(OSError, subprocess.CalledProcessError):  # a shim of pyenv may be all there is
        command = [name, "-c", "import sys; print(sys.executable)"]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return Interpreter(os.path.realpath(found.strip()), name)
    logger.warning("%s is not on PATH: steps whose image has it run with %s", name, own.name)
    return own


def create(recipe: Recipe) -> None:
    """Create an environment with pip and setuptools, as in Python's container images, and kfp.

    The wheels of Python's own `ensurepip` are unpacked: installing them takes longer than most
    packages of steps do. kfp is without its dependencies, as components install it.
    """
    packages = recipe.python.write_environment(recipe.prefix)
    of_debian = sysconfig.get_config_var("WHEEL_PKG_DIR")
    for wheel in Path(of_debian or Path(ensurepip.__file__).with_name("_bundled")).glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    kfp = metadata.distribution("kfp")
    for name in ("kfp", f"kfp-{kfp.version}.dist-info") if recipe.has_kfp else ():
        shutil.copytree(str(kfp.locate_file(name)), packages / name)


@contextmanager
def building(prefix: Path, *, wait: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of an environment, which is complete after the block unless that raises.

    Yields whether it is to be built. `wait` is called, and may raise, while another step builds it.
    Removes the environments that no step has used for 30 days.
    """
    make_private(prefix.parent)
    with prefix.with_suffix(LOCK_SUFFIX).open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                wait()
        if (prefix / COMPLETE).exists():
            yield False
            return
        _remove_unused(prefix.parent)
        try:
            shutil.rmtree(prefix, ignore_errors=True)  # of a killed build
            yield True
            (prefix / COMPLETE).touch()
        except BaseException:
            shutil.rmtree(prefix, ignore_errors=True)
            raise


def _remove_unused(folder: Path) -> None:
    for lock in folder.glob(f"*{LOCK_SUFFIX}"):
        with suppress(FileNotFoundError):
            if lock.stat().st_mtime < time.time() - UNUSED_SECONDS:
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()


def _signature(path: Path) -> list[tuple[str, int, int]]:
    """Return size and time of a file, or of all files in a folder; else nothing."""
    try:
        paths = sorted(path.rglob("*")) if path.is_dir() else [path]
        statuses = [(str(file), file.stat()) for file in paths if file.is_file()]
    except (OSError, ValueError):
        return []
    return [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]
