"""No test file imports another: what they share is in `support`. macOS has the tools of scripts."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
# Programs and options that BSD's tools do not have.
GNU_ONLY = re.compile(
    r"nproc|cp (-a|--)|sed -[ir]|date (-d|--)|readlink -f|stat -c|grep -P|xargs -[rd]|\btac\b"
    r"|sort -V|-printf|head -n -|ln -r|\btimeout \d|--target-directory"
)

IMPORT_OF_A_TEST = re.compile(
    r"^ *(?:from|import) \S*tests\S*(?: import .*\b|\.)test_", re.MULTILINE
)

pytestmark = pytest.mark.fast


def test_no_file_imports_a_test_file():
    imports = [
        f"{path}: {line}"
        for folder in ("tests", "vertex_local/tests")
        for path in (REPOSITORY / folder).rglob("*.py")
        for line in IMPORT_OF_A_TEST.findall(path.read_text())
    ]
    assert not imports, "move what they share to tests/support or vertex_local/tests/support"


@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_scripts_need_no_tools_that_only_linux_has(name):
    assert not GNU_ONLY.findall((REPOSITORY / name).read_text())
