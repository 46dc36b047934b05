"""A step's own Python: an empty environment on top of one that it reads and cannot change.

Whatever a step installs (`python -m pip`, `pip`, `sys.executable`, `uv pip`) goes into its layer,
comes first in its path, and is removed with it, as in a container. A layer is a virtual environment
whose packages are followed by those of its base: some ten files, made in a millisecond. The
standard library only: supervisors make it.
"""

import os
import shlex
import shutil
import site
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from vertex_local.machine import linux

# Flags that would lead an installer to another place than the environment it runs in.
PLACE_VARIABLES = (
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PYTHONHOME"),
    *("UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_TARGET", "UV_PREFIX", "UV_PROJECT_ENVIRONMENT"),
)
DATA_FOLDERS = ("share", "etc")  # packages look for files of theirs there, below sys.prefix


@dataclass(frozen=True)
class Layer:
    """A virtual environment in `folder` over the one with the prefix `base`."""

    folder: Path
    base: Path

    @classmethod
    def make(cls, folder: Path, *, base: Path) -> "Layer":
        """Write the files of a layer.

        Raises:
            OSError: they cannot be written.
        """
        layer = cls(folder, base)
        layer._site.mkdir(parents=True)
        layer._bin.mkdir()
        home = os.path.dirname(_base_executable())
        config = f"home = {home}\ninclude-system-site-packages = false\n"
        (folder / "pyvenv.cfg").write_text(config)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        for name in ("python", "python3", f"python{version}"):
            (layer._bin / name).symlink_to(_base_executable())
        paths = layer._base_sites
        lines = [f"import site; site.addsitedir({path!r})\n" for path in paths]
        (layer._site / "_base.pth").write_text("".join(lines))
        if any(Path(path, "pip").is_dir() for path in paths):
            for name in ("pip", "pip3", f"pip{version}"):
                layer._write_script(name, "pip")
        for name in DATA_FOLDERS if is_virtual(base) else ():
            if (base / name).is_dir():
                shutil.copytree(base / name, folder / name, copy_function=os.symlink)
        return layer

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self._bin / "python"

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return `env` as a shell has it in which the layer is activated."""
        left = {name: value for name, value in env.items() if name not in PLACE_VARIABLES}
        folders = [str(self._bin), str(_bin_of(self.base))]
        others = left.get("PATH", "").split(os.pathsep)
        if not is_own(self.base):
            left.pop("PYTHONPATH", None)
            others = [folder for folder in others if folder != str(_own_bin())]
        left["PATH"] = os.pathsep.join([*folders, *others])
        left["VIRTUAL_ENV"] = str(self.folder)
        if "CONDA_PREFIX" in left:
            left["CONDA_PREFIX"] = str(self.folder)
        return left

    def adopt(self) -> None:
        """Let this process, a fork that runs on the base, be one that was started in the layer."""
        sys.executable = str(self.python)
        sys.prefix = sys.exec_prefix = str(self.folder)
        sys.modules.pop("sysconfig", None)  # it keeps where packages are installed
        places = (sys.path.index(path) for path in self._base_sites if path in sys.path)
        sys.path.insert(min(places, default=len(sys.path)), str(self._site))

    @property
    def _bin(self) -> Path:
        return _bin_of(self.folder)

    @property
    def _site(self) -> Path:
        return Path(site_of(self.folder))

    @property
    def _base_sites(self) -> list[str]:
        if not is_own(self.base):
            return [site_of(self.base)]
        users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
        return [*users, *site.getsitepackages()]

    def _write_script(self, name: str, module: str) -> None:
        script = self._bin / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(self.python))} -m {module} "$@"\n')
        script.chmod(0o755)


def is_own(prefix: Path) -> bool:
    """Whether this is the environment that the service itself runs in."""
    return str(prefix) == sys.prefix


def is_virtual(prefix: Path) -> bool:
    """Whether a prefix is that of a virtual environment, not of a whole system."""
    return not is_own(prefix) or sys.prefix != sys.base_prefix


def site_of(prefix: Path) -> str:
    """Return the folder of the packages of a virtual environment."""
    places = {"base": str(prefix), "platbase": str(prefix)}
    return sysconfig.get_path("purelib", "venv", vars=places)


def protect(prefixes: set[str]) -> None:
    """Make environments read-only for all processes of this mount namespace, which must be new.

    A second wall, against writing past the layer; where the system refuses it, the layer is left.
    """
    for folder in sorted({folder for prefix in prefixes for folder in _folders(Path(prefix))}):
        try:
            linux.make_read_only(folder)
        except OSError as error:
            sys.stderr.write(f"{folder} is not read-only for the step: {error}\n")


def _folders(prefix: Path) -> list[str]:
    """Return the folders of packages and scripts of an environment."""
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


def _base_executable() -> str:
    """Return the interpreter from which virtual environments are made."""
    return getattr(sys, "_base_executable", "") or sys.executable
