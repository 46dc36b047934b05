"""Start, sharing and stop of a service by its users."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from vertex_local import client
from vertex_local.client import Lease, LocalService, ServiceError, service_pid
from vertex_local.tests.support.seen import is_running, running

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv(client.EMULATOR_VARIABLE, raising=False)
    return tmp_path / "used"


@contextmanager
def used(root: Path) -> Iterator[LocalService]:
    service = LocalService(root)
    service.join()
    yield service
    service.leave()


@pytest.mark.fast
def test_the_client_imports_little():
    code = "import sys, vertex_local.client; print('requests' in sys.modules, len(sys.modules))"
    out = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, check=True)
    has_requests, count = out.stdout.decode().split()
    assert has_requests == "False"
    assert int(count) < 250


def test_address_of_a_killed_service_is_not_used(root, own_service):
    """Another service uses the recorded port."""
    root.mkdir()
    record = {"pid": own_service.process.pid, "url": own_service.url, "mounts": None}
    (root / "server.json").write_text(json.dumps(record))

    with used(root) as ours:
        assert ours.url != own_service.url


def test_service_started_by_hand_is_used_and_kept(own_service):
    with used(own_service.root) as found:
        assert found.url == own_service.url

    assert own_service.process.poll() is None


def test_unresponsive_service_is_reported(own_service, monkeypatch):
    monkeypatch.setattr(client, "START_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(client, "RESPONSE_TIMEOUT_SECONDS", 0.5)
    user = LocalService(own_service.root)
    os.kill(own_service.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServiceError, match="within 1 s"):
            user.join()
    finally:
        os.kill(own_service.process.pid, signal.SIGCONT)
        user.leave()
    assert own_service.process.poll() is None


def test_a_service_that_ends_without_a_word_is_reported(root, monkeypatch):
    monkeypatch.setattr(client, "SERVE", ["false"])  # as on a full disk, where it cannot log
    service = LocalService(root)
    with pytest.raises(ServiceError, match=r"nothing to .*service.log; is the disk full\?"):
        service.join()
    service.leave()


def test_interrupt_during_the_services_start_leaves_no_process(root, monkeypatch):
    service = LocalService(root)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client.time, "sleep", interrupt)  # the first wait is for the new process
        with pytest.raises(KeyboardInterrupt):
            service.join()
    [started] = running(str(root))
    service.leave()

    assert not is_running(started)
    assert service_pid(root) is None


@pytest.mark.parametrize("num_users", [2, 8])
def test_exactly_one_of_the_leaving_users_is_the_last(tmp_path, monkeypatch, num_users):
    leases = [Lease(tmp_path) for _ in range(num_users)]
    (tmp_path / client.ENDS_WHEN_UNUSED_FILE).touch()
    stopped: list[Path] = []
    monkeypatch.setattr(client, "stop_service", stopped.append)

    with ThreadPoolExecutor(num_users) as threads:
        list(threads.map(Lease.close, leases))

    assert stopped == [tmp_path]


def test_lock_timeout_names_what_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "LOCK_TIMEOUT_SECONDS", 0.1)
    with (tmp_path / client.USERS_FILE).open("a") as ending:
        fcntl.flock(ending, fcntl.LOCK_EX)
        with pytest.raises(ServiceError, match=f"the service on {tmp_path}"):
            Lease(tmp_path)
