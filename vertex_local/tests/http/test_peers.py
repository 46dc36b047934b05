"""A service is its owner's: requests of other users are refused, its files closed to them."""

import http.client
import json
import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from vertex_local.client import EMULATOR_VARIABLE, LocalService
from vertex_local.machine import files, peers
from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.service import PARENT, running_service
from vertex_local.tests.support.strangers import as_stranger, needs_root

NUM_HALF_OPEN = 200
MODELS = f"/v1/{PARENT}/models"
JOBS = f"/v1/{PARENT}/customJobs"


def port_of(service) -> int:
    return int(service.url.rpartition(":")[2])


def request(port: int, method: str, path: str, body: Any = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body))
    response = connection.getresponse()
    return response.status, response.read().decode()


def job(path: Path) -> dict[str, Any]:
    return python_job(f"open({str(path)!r}, 'w')")


@pytest.mark.linux("the owner of a connection")
@needs_root
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", MODELS), ("POST", JOBS), ("GET", "/"), ("DELETE", f"{MODELS}/5")],
    ids=["read", "run-a-command", "console", "delete"],
)
def test_another_user_is_refused(service, tmp_path, method, path):
    body = job(tmp_path / "touched") if method == "POST" else None

    status, text = as_stranger(lambda: request(port_of(service), method, path, body))

    assert status == 403
    error = json.loads(text)["error"]
    assert (error["code"], error["status"]) == (403, "PERMISSION_DENIED")
    assert "--shared" in error["message"]
    assert service.do("GET", JOBS)["customJobs"] == []


@pytest.mark.linux("the owner of a connection")
@needs_root
def test_a_request_of_another_user_on_a_closed_connection_is_not_handled(own_service, tmp_path):
    """The kernel returns uid 0 for a socket that its process has closed."""
    body = json.dumps(job(tmp_path / "touched"))

    def send_and_close() -> None:
        with socket.create_connection(("127.0.0.1", port_of(own_service))) as connection:
            head = f"POST {JOBS} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall((head + body).encode())

    os.kill(
        own_service.process.pid, signal.SIGSTOP
    )  # so that it accepts only after the client has closed
    try:
        assert as_stranger(send_and_close) is None
    finally:
        os.kill(own_service.process.pid, signal.SIGCONT)

    assert own_service.do("GET", JOBS)["customJobs"] == []
    assert "connections of an unknown user" in own_service.log()


@pytest.mark.linux("the owner of a connection")
@needs_root
def test_a_command_of_another_user_fails_at_once(service):
    def use() -> None:
        os.environ[EMULATOR_VARIABLE] = service.url.removeprefix("http://")
        LocalService(Path("/nowhere")).join()

    output = as_stranger(use)
    assert "refuses" in output
    assert f"uid {os.geteuid()}" in output
    assert "--shared" in output


@pytest.mark.linux("the owner of a connection")
@needs_root
def test_half_open_connections_of_another_user_do_not_count(own_service):
    def open_many() -> int:
        address = ("127.0.0.1", port_of(own_service))
        many = [socket.create_connection(address, timeout=60) for _ in range(NUM_HALF_OPEN)]
        return sum(one.recv(4096).startswith(b"HTTP/1.1 403") for one in many)

    assert as_stranger(open_many) == NUM_HALF_OPEN
    assert own_service.do("GET", MODELS) == {"models": []}
    assert own_service.log().count("--shared") == 1, "a line for each would fill the disk"


@needs_root
def test_a_service_accepts_every_user_with_a_warning(tmp_path):
    with running_service(tmp_path / "vertex", "--shared") as service:
        assert as_stranger(lambda: request(port_of(service), "GET", MODELS))[0] == 200
        assert "every user of this machine" in service.log()
        assert stat.S_IMODE(service.root.stat().st_mode) == 0o700


@needs_root
def test_another_user_cannot_read_the_database(own_service, tmp_path):
    tmp_path.chmod(0o755)
    folder = os.open(tmp_path, os.O_RDONLY)  # other users cannot enter the parent folder either

    output = as_stranger(lambda: os.open("vertex/vertex.db", os.O_RDONLY, dir_fd=folder))

    os.close(folder)
    assert "PermissionError" in output


def test_files_of_the_service_and_of_its_jobs_are_private(own_service, tmp_path):
    written = tmp_path / "written"
    created = own_service.do("POST", JOBS, job(written))
    assert wait_for_end(own_service, created)["state"] == "JOB_STATE_SUCCEEDED"

    ours = [path for path in own_service.root.rglob("*") if path != own_service.root / "serve.log"]
    assert stat.S_IMODE(own_service.root.stat().st_mode) == 0o700, "it was made with 755"
    assert [
        path for path in [written, *ours] if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ] == []


def test_a_root_folder_is_made_private_unless_all_users_share_it(tmp_path):
    made, loose, shared = (tmp_path / name for name in ("a/made", "loose", "shared"))
    loose.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o1777)

    files.make_private(made)
    files.make_private(loose)
    with pytest.raises(PermissionError, match="shared by all users"):
        files.make_private(shared)

    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (made, loose, shared)]
    assert modes == [0o700, 0o700, 0o1777]


@needs_root
def test_a_root_folder_of_another_user_is_refused(tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to the user 12345"):
        files.make_private(foreign)


@pytest.fixture(params=["netlink", "proc"])
def source(request, monkeypatch):
    """Set the source of the kernel's information."""
    if request.param == "proc":

        def refuse(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr(peers, "_uid_by_netlink", refuse)
    else:
        monkeypatch.setattr(peers, "_uid_by_proc", lambda *_: None)


@pytest.mark.linux("the owner of a connection")
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["v4", "v6-mapped"])
def test_the_user_of_the_client_is_found(listener, source, family):
    host, port = listener.getsockname()
    with socket.socket(family) as client:
        client.connect((host if family == socket.AF_INET else f"::ffff:{host}", port))
        accepted, address = listener.accept()
        with accepted:
            assert peers.peer_uid(address, (host, port)) == os.geteuid()
            client.shutdown(socket.SHUT_WR)  # it still reads
            assert peers.peer_uid(address, (host, port)) == os.geteuid()


@pytest.mark.linux("the owner of a connection")
@pytest.mark.parametrize("is_accepted", [True, False])
def test_the_user_of_a_closed_connection_is_unknown(listener, source, is_accepted):
    client = socket.create_connection(listener.getsockname())
    accepted, address = listener.accept()
    with accepted:
        client.close()
        if not is_accepted:
            accepted.close()
        assert peers.peer_uid(address, listener.getsockname()) is None


@pytest.mark.linux("the owner of a connection")
def test_a_listening_socket_is_not_taken_for_the_client(listener, source):
    """The kernel may return a socket that listens on the client's port instead."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert peers.peer_uid(other.getsockname(), listener.getsockname()) is None
