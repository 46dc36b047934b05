"""The requirements of setup.py and the locks that `make lock` makes from them."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from pipelines.package.image import SOURCE_ROOT


def pinned(lock):
    text = (SOURCE_ROOT / lock).read_text()
    return dict(re.findall(r"^([\w.-]+)==([^ \\;]+)", text, re.M))


@pytest.mark.fast
def test_no_extra_bounds_a_package_of_the_common_lock():
    """`make lock` chooses its newest version first, which the extra's lock must then take."""
    [call] = [
        node
        for node in ast.walk(ast.parse((SOURCE_ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    ]
    given = {word.arg: word.value for word in call.keywords}
    always = {Requirement(one).name for one in ast.literal_eval(given["install_requires"])}
    extras = ast.literal_eval(given["extras_require"])
    needed = [Requirement(one) for extra in extras.values() for one in extra]
    common = set(pinned("requirements.lock")) - always

    bounded = [
        str(one)
        for one in needed
        if one.name in common
        and any("<" in s.operator or s.operator[0] == "=" for s in one.specifier)
    ]
    assert bounded == []


@pytest.mark.fast
def test_the_locks_keep_the_bounds():
    settings = tomllib.loads((SOURCE_ROOT / "pyproject.toml").read_text())
    versions = pinned("requirements.lock")
    for text in settings["tool"]["uv"]["constraint-dependencies"]:
        bound = Requirement(text)
        assert bound.specifier.contains(versions[bound.name])


def test_the_locks_name_every_package_that_is_needed():
    """They are installed without looking for others: pip 23.2 took newer ones for extras."""
    check = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout
