"""Markers, the temporary folder of the session, and fixtures of all tests."""

import ctypes
import gc
import os
import shutil
import socket
import subprocess
import tempfile
import tracemalloc  # noqa: F401  pytest's hook for objects left open fails while it is being imported
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vertex_local.client import EMULATOR_VARIABLE, TOKEN_VARIABLE
from vertex_local.machine.linux import PR_SET_CHILD_SUBREAPER
from vertex_local.tests.support import seen
from vertex_local.tests.support.docker_command import docker
from vertex_local.tests.support.platform import IS_PORTABLE, TOKEN

# Forks of a test must not start the threads of gRPC, which another test has loaded.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

IMAGE_VARIABLE = "VERTEX_LOCAL_TEST_IMAGE"  # of tests in containers


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare `-m fast` the imports of files that have no fast test, two thirds of all imports."""
    if config.option.markexpr != "fast" or collection_path.suffix != ".py":
        return None
    return True if "mark.fast" not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Do not look for garbage among imported modules: a fifth of the time that collection takes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its cost, and put the files with the longest tests first.

    At the end, xdist then has short tests with which to keep all its workers busy.
    """
    ranks: dict[Path, int] = {}
    for item in items:
        if "container_image" in getattr(item, "fixturenames", ()):
            item.add_marker("docker")
        elif not item.get_closest_marker("fast"):
            item.add_marker("processes")
        if IS_PORTABLE and (linux := item.get_closest_marker("linux")):
            item.add_marker(pytest.mark.skip(f"only Linux has {linux.args[0]}"))
        is_fast = item.get_closest_marker("fast") is not None
        rank = 0 if item.path.parent.name == "whole_runs" else 1 + is_fast
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])  # stable: a file's tests stay together


def pytest_configure(config: pytest.Config) -> None:
    """Create a folder for temporary files of the session; it is removed at the end."""
    os.environ[TOKEN_VARIABLE] = TOKEN
    if hasattr(config, "workerinput"):
        return  # a worker of xdist uses the folder of the process that started it
    folder = tempfile.mkdtemp(prefix="vertex-local-tests-")
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def no_process_left() -> Iterator[None]:
    """Fail the last test if a process that one of the tests started still runs."""
    temp_dir = tempfile.gettempdir()
    yield
    seen.await_end_of_tests(temp_dir)


@pytest.fixture(autouse=True)
def no_subreaper() -> None:
    """Let init reap the orphans of a killed service.

    A group of processes that an earlier test started made this process a subreaper, which would get
    the orphans and not reap them.
    """
    if not IS_PORTABLE:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture(autouse=True)
def no_service_left_in_environment() -> Iterator[None]:
    """Fail a test that leaves a service's address in the environment."""
    name = EMULATOR_VARIABLE
    before = os.environ.get(name)  # a module may set it for all its tests
    yield
    left = os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before
    assert left == before, f"{name}={left} is left"


@pytest.fixture
def temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder for temporary files of this process and its children."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Listen on a free port of the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(scope="session")
def container_image() -> str:
    """Return an image with Python, whose name is in the environment; skip the test without one."""
    image = os.environ.get(IMAGE_VARIABLE)
    if not image:
        pytest.skip(f"{IMAGE_VARIABLE} names no image")
    if not shutil.which("docker"):
        pytest.skip("`docker` is not on PATH")
    try:
        docker("version")
    except subprocess.CalledProcessError:
        pytest.skip("no Docker engine responds")
    try:
        docker("image", "inspect", "--", image)
    except subprocess.CalledProcessError:
        pytest.skip(f"the image {image} does not exist")
    return image


@pytest.fixture
def left_over() -> Callable[[Path], list[str]]:
    """Return the containers and networks that exist for a service's root folder."""

    def names(root: Path) -> list[str]:
        label = ["--filter", f"label=vertex-local.root={root.resolve()}"]
        containers = docker("ps", "--all", *label, "--format", "{{.Names}}")
        networks = docker("network", "ls", *label, "--format", "network {{.Name}}")
        return containers.splitlines() + networks.splitlines()

    return names
