"""No test file imports another: what they share is in `support`. macOS has the tools of scripts."""

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
# Programs and options that BSD's tools do not have.
GNU_ONLY = re.compile(
    r"nproc|cp (-a|--)|sed -[ir]|date (-d|--)|readlink -f|stat -c|grep -P|xargs -[rd]|\btac\b"
    r"|sort -V|-printf|head -n -|ln -r|\btimeout \d|--target-directory"
)

pytestmark = pytest.mark.fast


def imported_names(path: Path) -> set[str]:
    """Return the names that a file imports, each with its module before it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("folder", ["tests", "vertex_local/tests"])
def test_no_file_imports_a_test_file(folder):
    imports = {
        f"{path.relative_to(REPOSITORY)} imports {name}"
        for path in (REPOSITORY / folder).rglob("*.py")
        for name in imported_names(path)
        if "tests." in name and ".test_" in name
    }
    assert not imports, "move what they share to tests/support or vertex_local/tests/support"


@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_scripts_need_no_tools_that_only_linux_has(name):
    assert not GNU_ONLY.findall((REPOSITORY / name).read_text())
