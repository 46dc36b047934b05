"""Builder of one environment: `python -m …environments.builder FOLDER ARGUMENTS…`.

ARGUMENTS are a JSON list for each `pip install`, in order. A separate process, so that a cancelled
build ends with all its descendants. Exits with pip's exit code.
"""

import ensurepip
import json
import os
import subprocess
import sys
import time
import venv
import zipfile
from importlib import metadata
from pathlib import Path

from vertex_local.processes.environments.commands import Step, own_kfp
from vertex_local.processes.environments.layer import PLACE_VARIABLES, site_of
from vertex_local.processes.environments.store import VENV_FOLDER, write_record

PIP_DEFAULTS = {
    "PIP_NO_INPUT": "1",  # there is no terminal for a password
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_RETRIES": "2",  # not 5: without a network the last ones take long
}
UNSET = {
    *PLACE_VARIABLES,
    *("PYTHONPATH", "PYTHONUSERBASE"),
    "PYTHONDONTWRITEBYTECODE",  # each pip would compile its own modules: two thirds of its time
}


def build(folder: Path, installs: tuple[tuple[str, ...], ...]) -> int:
    """Build the environment and write its record; return 0, or the exit code of a failed pip."""
    began = time.monotonic()
    prefix = folder / VENV_FOLDER
    _create(prefix)
    env = _environment(prefix)
    for arguments in installs:
        if code := _install(prefix, arguments, env):
            return code
    # kfp starts every step; in a container it may be part of the image.
    if not _has_kfp(prefix) and (code := _install(prefix, (own_kfp(), "--no-deps"), env)):
        return code
    found = metadata.distributions(path=[site_of(prefix)])
    packages = [f"{one.metadata['Name']}=={one.version}" for one in found]
    requirements = Step((), installs).requirements
    size_bytes = write_record(folder, requirements=requirements, packages=packages)
    _log(f"built in {time.monotonic() - began:.1f} s ({size_bytes / 1e6:.0f} MB), kept in {folder}")
    return 0


def _create(prefix: Path) -> None:
    """Create a virtual environment with pip and setuptools, as in Python's container images.

    The wheels in Python's own `ensurepip` are unpacked: installing them takes longer than most
    packages of steps do.
    """
    wheels = sorted(Path(ensurepip.__file__).parent.glob("_bundled/*.whl"))
    venv.EnvBuilder(with_pip=not wheels, symlinks=True).create(prefix)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site_of(prefix))


def _install(prefix: Path, arguments: tuple[str, ...], env: dict[str, str]) -> int:
    command = [str(prefix / "bin" / "python"), "-m", "pip", "install", *arguments]
    return subprocess.run(command, env=env, check=False).returncode


def _environment(prefix: Path) -> dict[str, str]:
    """Return the environment of pip: the user's, without settings of another target folder."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    path = os.pathsep.join([str(prefix / "bin"), os.environ.get("PATH", "")])
    return {**PIP_DEFAULTS, **kept, "VIRTUAL_ENV": str(prefix), "PATH": path}


def _has_kfp(prefix: Path) -> bool:
    return any(metadata.distributions(name="kfp", path=[site_of(prefix)]))


def _log(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Build the environment that the command line specifies."""
    folder, *installs = sys.argv[1:]
    sys.exit(build(Path(folder), tuple(tuple(json.loads(one)) for one in installs)))


if __name__ == "__main__":
    main()
