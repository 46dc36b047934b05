"""No test file imports another: what they share is in `support`."""

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]

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
