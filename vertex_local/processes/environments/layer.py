"""Layer of a step: an empty Python environment on top of a read-only one.

Packages that a step installs (`python -m pip`, `pip`, `sys.executable`, `uv pip`) go to its layer,
come first in its path, and are removed with it, as in a container. A layer is a virtual environment
with the packages of its base after its own: about ten files, created in a millisecond. Standard
library only: supervisors import it.
"""

import os
import shlex
import shutil
import site
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from vertex_local import redirect
from vertex_local.machine import system
from vertex_local.machine.files import log_line

# Variables that would make an installer write outside the environment it runs in.
PLACE_VARIABLES = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_PYTHON",
    "PYTHONHOME",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
    "UV_PREFIX",
    "UV_PROJECT_ENVIRONMENT",
)
KEPT_MODULES = {"__main__", "sitecustomize", *sys.stdlib_module_names}
FINDERS = ("_frozen_importlib", "sitecustomize")  # starts of their modules
REPLACED_MODULES: list[object] = []  # to deallocate them would take long
DATA_FOLDERS = ("share", "etc")  # packages search these below sys.prefix


@dataclass(frozen=True)
class Interpreter:
    """A Python outside of virtual environments: the path of its program, and `python3.MINOR`."""

    path: str
    name: str

    @classmethod
    def of(cls, prefix: Path) -> "Interpreter":
        """Return the interpreter of an environment that exists."""
        if is_own(prefix):
            path = getattr(sys, "_base_executable", "") or sys.executable
            return cls(os.path.realpath(path), f"python3.{sys.version_info.minor}")
        path = os.path.realpath(prefix / "bin" / "python")
        return cls(path, Path(site_of(prefix)).parent.name)

    def write_environment(self, folder: Path) -> Path:
        """Write a virtual environment without packages; return the folder of its packages.

        Raises:
            OSError: It cannot be written.
        """
        # `pip install --user` works, as in an image; its folder is the layer's (PYTHONUSERBASE).
        # pip looks for the key in lower case, which Python does not need, and at ENABLE_USER_SITE.
        config = f"home = {os.path.dirname(self.path)}\nInclude-System-Site-Packages = false\n"
        packages = folder / "lib" / self.name / "site-packages"
        packages.mkdir(parents=True)
        (folder / "pyvenv.cfg").write_text(config)
        (folder / "bin").mkdir()
        for name in ("python", "python3", self.name):
            (folder / "bin" / name).symlink_to(self.path)
        return packages


@dataclass(frozen=True)
class Layer:
    """A virtual environment in `folder` over the one with the prefix `base`."""

    folder: Path
    base: Path

    @classmethod
    def make(cls, folder: Path, *, base: Path) -> "Layer":
        """Write the files of a layer.

        Raises:
            OSError: They cannot be written.
        """
        layer, python = cls(folder, base), Interpreter.of(base)
        packages = python.write_environment(folder)
        paths = layer._base_sites
        lines = ["import site; site.ENABLE_USER_SITE = True\n"]
        lines += [f"import site; site.addsitedir({path!r})\n" for path in paths]
        (packages / "_base.pth").write_text("".join(lines))
        if any(Path(path, "pip").is_dir() for path in paths):
            for name in ("pip", "pip3", python.name.replace("python", "pip")):
                layer._write_pip(name)
        is_virtual = not is_own(base) or sys.prefix != sys.base_prefix  # no system's Python
        for name in DATA_FOLDERS if is_virtual else ():
            if (base / name).is_dir():
                shutil.copytree(base / name, folder / name, copy_function=os.symlink)
        return layer

    @property
    def python(self) -> Path:
        """Interpreter of the layer."""
        return self._bin / "python"

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return `env` as it is with the layer activated."""
        kept = {name: value for name, value in env.items() if name not in PLACE_VARIABLES}
        folders = [str(self._bin), str(_bin_of(self.base))]
        rest = kept.get("PATH", "").split(os.pathsep)
        if not is_own(self.base):
            of_service = os.environ.get("PYTHONPATH", "")
            of_step = kept.get("PYTHONPATH", "").removesuffix(of_service)
            kept["PYTHONPATH"] = redirect.joined(of_step, redirect.FOLDER)
            rest = [folder for folder in rest if folder != str(_own_bin())]
        kept["PATH"] = os.pathsep.join([*folders, *rest])
        kept["VIRTUAL_ENV"] = kept["PYTHONUSERBASE"] = str(self.folder)
        if "CONDA_PREFIX" in kept:
            kept["CONDA_PREFIX"] = str(self.folder)
        return kept

    def adopt(self) -> None:
        """Switch this process, a fork of one with the service's packages, to the layer.

        Over another environment it keeps the modules of the standard library only.
        """
        has_own_base = is_own(self.base)
        sys.executable = str(self.python)
        sys.prefix = sys.exec_prefix = str(self.folder)
        sys.modules.pop("sysconfig", None)  # it caches the folders of packages
        places = (sys.path.index(path) for path in _own_sites() if path in sys.path)
        end = min(places, default=len(sys.path))
        if has_own_base:
            sys.path.insert(end, site_of(self.folder))
            return
        del sys.path[end:]
        sys.meta_path[:] = [one for one in sys.meta_path if one.__module__.startswith(FINDERS)]
        for name in list(sys.modules):
            if name.partition(".")[0] not in KEPT_MODULES:
                REPLACED_MODULES.append(sys.modules.pop(name))
        site.addsitedir(site_of(self.folder))

    @property
    def _bin(self) -> Path:
        return _bin_of(self.folder)

    @property
    def _base_sites(self) -> list[str]:
        return _own_sites() if is_own(self.base) else [site_of(self.base)]

    def _write_pip(self, name: str) -> None:
        script = self._bin / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(self.python))} -m pip "$@"\n')
        script.chmod(0o755)


def is_own(prefix: Path) -> bool:
    """Return whether this is the environment of the service itself."""
    return str(prefix) == sys.prefix


def site_of(prefix: Path) -> str:
    """Return the folder of the packages of a virtual environment."""
    [folder] = prefix.glob("lib/python3.*/site-packages")
    return str(folder)


def _own_sites() -> list[str]:
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*users, *site.getsitepackages()]


def protect(prefixes: set[str]) -> None:
    """Make environments read-only in this mount namespace, which must be new.

    This prevents writes that bypass the layer. A system may refuse it; the layer works without.
    """
    for folder in sorted({folder for prefix in prefixes for folder in _folders(Path(prefix))}):
        try:
            system.make_read_only(folder)
        except OSError as error:
            log_line(f"{folder} stays writable for the step: {error}")


def _folders(prefix: Path) -> list[str]:
    if not is_own(prefix):
        return [str(prefix)]
    below = {"base": sys.base_prefix, "platbase": sys.base_prefix}  # what `uv --system` writes to
    folders = [
        *site.getsitepackages(),
        sysconfig.get_path("scripts"),
        sysconfig.get_path("purelib", vars=below),
    ]
    return [folder for folder in folders if os.path.isdir(folder)]


def _bin_of(prefix: Path) -> Path:
    return _own_bin() if is_own(prefix) else prefix / "bin"


def _own_bin() -> Path:
    return Path(sys.executable).parent
