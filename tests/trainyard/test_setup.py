"""What setup.py declares against what the packages import, and what texts tell users to install."""

import ast
import functools
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trainyard", "pipelines", "components", "trainer", "vertex_local/rules")
OURS = {*PACKAGES, "vertex_local"}
OTHERS = {
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.storage": "google-cloud-storage",
    "google.protobuf": "protobuf",
    "sklearn": "scikit-learn",
}
# Not imported by name: started as a program, data, loaded by KFP or read by us as files.
NOT_IMPORTED = {"tensorboard", "tzdata"}


def declared() -> set[str]:
    call = next(
        node
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    )
    lists = {one.arg: one.value for one in call.keywords}
    names = ast.literal_eval(lists["install_requires"])
    names += ast.literal_eval(lists["extras_require"])["trees"]  # imported where it is installed
    return {re.split(r"[\[<>=]", name)[0].lower() for name in names}


@functools.cache
def imported() -> dict[str, str]:
    """Return a file that imports each distribution, by the distribution."""
    distributions = metadata.packages_distributions()
    found = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for name in _names(ast.parse(path.read_text())):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top in OURS or top == "pytest":
                continue
            known = next((OTHERS[one] for one in OTHERS if name.startswith(one)), "")
            found[(known or distributions[top][0]).lower()] = str(path)
    return found


def _names(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def test_what_is_imported_is_declared():
    missing = {name: file for name, file in imported().items() if name not in declared()}
    assert not missing


def test_what_is_declared_is_imported():
    used = set(imported()) | NOT_IMPORTED
    assert declared() - used <= {"google-cloud-aiplatform"}


def test_no_text_tells_to_install_ours_from_an_index():
    own = re.compile(r"pip install[^\n]*\b(?:trainyard|vertex-local)(?![\w/.-]*\.whl)")
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    texts += [path for package in OURS for path in (ROOT / package).rglob("*.py")]
    assert not [str(path) for path in texts if own.search(path.read_text())]
