"""What test files import; fast ones need no TensorFlow. macOS has the tools of scripts."""

import re
import subprocess
import sys
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

IMPORT_WITHOUT_TENSORFLOW = """
import importlib, sys
sys.modules["tensorflow"] = None
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def files() -> list[Path]:
    folders = (REPOSITORY / "tests", REPOSITORY / "vertex_local/tests")
    return [path for folder in folders for path in folder.rglob("*.py")]


@pytest.mark.fast
def test_no_file_imports_a_test_file():
    imports = [
        f"{path}: {line}" for path in files() for line in IMPORT_OF_A_TEST.findall(path.read_text())
    ]
    assert not imports, "move what they share to tests/support or vertex_local/tests/support"


def test_files_with_fast_tests_import_no_tensorflow():
    """Each process of `make test ARGS="-m fast"` would import it before the first test."""
    fast = [path.relative_to(REPOSITORY) for path in files() if "mark.fast" in path.read_text()]
    names = [".".join(path.with_suffix("").parts) for path in fast if path.stem[:5] == "test_"]
    command = [sys.executable, "-c", IMPORT_WITHOUT_TENSORFLOW, *names]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )
    assert len(names) > 100
    assert not done.returncode, done.stderr


@pytest.mark.fast
@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_scripts_need_no_tools_that_only_linux_has(name):
    assert not GNU_ONLY.findall((REPOSITORY / name).read_text())
