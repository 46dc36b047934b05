"""The declarations of pyproject.toml against the source."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import vertex_local

pytestmark = pytest.mark.fast

ROOT = Path(vertex_local.__file__).parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Distributions by the name that is imported, if it is another.
DISTRIBUTIONS = {"google": "protobuf", "gcp_storage_emulator": "gcp-storage-emulator"}
# Imported by those who have it; dependencies of requests and of the emulator.
OPTIONAL, INDIRECT = {"pytest"}, {"urllib3", "google_crc32c"}
NOT_IMPORTED = {"tzdata", "kfp-pipeline-spec"}  # data of zoneinfo; a namespace of kfp


def sources() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if not path.is_relative_to(ROOT / "tests")]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=]", one)[0] for one in requirements}


def test_every_package_is_in_the_wheel():
    folders = {path.parent.relative_to(ROOT.parent) for path in sources()}
    packages = {".".join(folder.parts) for folder in folders}
    assert set(SETTINGS["tool"]["setuptools"]["packages"]) == packages


def test_what_is_imported_is_declared_and_nothing_else():
    imported = set()
    for node in (node for path in sources() for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0])
    external = imported - sys.stdlib_module_names - {"vertex_local"} - OPTIONAL - INDIRECT
    project = SETTINGS["project"]
    optional = project["optional-dependencies"]
    extras = optional["pipelines"] + optional["tuning"] + optional["buckets"]
    declared = names(project["dependencies"] + extras)
    assert {DISTRIBUTIONS.get(name, name) for name in external} == declared - NOT_IMPORTED
