"""Groups of small processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vertex_local.processes import group as processes
from vertex_local.processes.group import Group, ProcessSpec
from vertex_local.processes.launch import Launch
from vertex_local.processes.warm import Warm
from vertex_local.tests.support.platform import IS_PORTABLE


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., ProcessSpec]:
    """Return a function that plans a process with the role in its name, `ROLE/INDEX`."""

    def make(name: str, code: str, **options: Any) -> ProcessSpec:
        role = name.partition("/")[0]
        defaults = {
            "command": ["python", "-c", code],
            "env": {},
            "cwd": str(tmp_path),
            "log_path": tmp_path / "logs" / f"{name.replace('/', '-')}.log",
            "is_primary": role == "chief",
            "is_service": role == "ps",
            "holds_state": role != "worker",
        }
        return ProcessSpec(name=name, **(defaults | options))

    return make


@pytest.fixture(scope="module")
def forked(tmp_path_factory) -> Iterator[Launch]:
    """Return the start of supervisors as forks, where these are safe."""
    if IS_PORTABLE:
        yield Launch()
        return
    warm = Warm([["tempfile"]], log_path=tmp_path_factory.mktemp("warm") / "warm.log")
    warm.start()
    yield Launch(warm=warm)
    warm.close()


@pytest.fixture
def run(tmp_path: Path, forked: Launch):
    """Return a function that starts a group, which ends with the test."""
    groups: list[Group] = []

    def start(*specs: ProcessSpec, **options: Any) -> Group:
        folder = tmp_path / f"group{len(groups)}"
        options = {"timeout_seconds": None, "launch": forked, **options}
        group = processes.start(folder, list(specs), **options)
        groups.append(group)
        return group

    yield start
    for group in groups:
        group.stop(grace_seconds=0)
