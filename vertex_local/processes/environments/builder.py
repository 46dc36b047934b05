"""Building of an environment by uv, from the indexes and files that pip is configured for."""

import ast
import ensurepip
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

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
