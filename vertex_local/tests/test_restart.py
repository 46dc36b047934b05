"""Restarts after a stop or kill -9: recovered state, and removed leftovers."""

import ctypes
import fcntl
import json
import signal
from pathlib import Path

import pytest

from vertex_local.tests.support.seen import is_running
from vertex_local.tests.support.service import deployment, run_cli, running_service
from vertex_local.tests.support.waiting import wait_until


@pytest.fixture
def service(own_service):
    return own_service


def predict(service, endpoint):
    return service.do("POST", f"/v1/{endpoint}:predict", {"instances": [21]})


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_serving_endpoint_serves_again(service, endpoint, upload, end):
    body = deployment(upload()["model"])
    service.do("POST", f"/v1/{endpoint}:deployModel", body)
    before = predict(service, endpoint)
    stored = service.do("GET", f"/v1/{endpoint}")
    getattr(service, end)()
    pid = before["predictions"][0]["pid"]
    wait_until(lambda: not is_running(pid), f"the end of {pid}")

    service.start()
    assert service.do("GET", f"/v1/{endpoint}") == stored
    after = predict(service, endpoint)
    assert after["predictions"][0]["double"] == 42
    assert after["deployedModelId"] == before["deployedModelId"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_interrupted_deployment_is_aborted_and_undone(service, endpoint, upload, end):
    model = upload("unhealthy")["model"]
    body = deployment(model)
    operation = service.call("POST", f"/v1/{endpoint}:deployModel", body).json()
    assert not operation["done"]
    getattr(service, end)()
    service.start()
    error = service.call("GET", f"/v1/{operation['name']}").json()["error"]
    assert error == {"code": 10, "message": "interrupted: the service stopped"}
    assert "deployedModels" not in service.do("GET", f"/v1/{endpoint}")
    service.do("DELETE", f"/v1/{model}")
    service.do("DELETE", f"/v1/{endpoint}")


def test_leftovers_of_an_interrupted_upload_are_removed(service, upload):
    name = upload()["model"]
    model_id = name.rpartition("/")[2]
    service.kill()
    half = service.root / "models" / ".incoming" / "7"
    orphans = [service.root / "models" / model_id / "2", service.root / "models" / "999" / "1"]
    for folder in (half, *orphans):
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").write_bytes(b"half")
    (service.root / "unfinished").mkdir(exist_ok=True)
    for folder in orphans:
        (service.root / "unfinished" / f"models%2F{folder.parent.name}%2F{folder.name}").touch()
    service.start()
    assert not half.exists()
    assert not any(folder.exists() for folder in orphans)
    assert not (service.root / "unfinished").exists()
    assert not (service.root / "lost+found").exists()
    assert (service.root / "models" / model_id / "1" / "saved_model.pb").exists()
    assert upload(parentModel=name)["modelVersionId"] == "2"


def test_a_damaged_journal_loses_no_folder_and_is_shown_to_users(service, endpoint, upload):
    kept = upload()["model"].rpartition("/")[2]
    service.stop()
    service.start()
    lost = upload()["model"].rpartition("/")[2]
    service.do("DELETE", f"/v1/{endpoint}")  # the deletion is lost as well
    service.kill()
    with (service.root / "vertex.db-wal").open("r+b") as journal:
        journal.write(b"damaged")

    service.start()

    models = [one["name"].rpartition("/")[2] for one in service.do("GET", "models")["models"]]
    assert models == [kept]
    folder = service.root / "lost+found" / "models" / lost / "1"
    assert (folder / "saved_model.pb").exists()
    notes = json.loads((service.root / "server.json").read_text())["notes"]
    assert [note.partition(" ")[2].partition("; ")[0] for note in notes] == [
        "vertex.db-wal was damaged or removed after the service was killed, so the last changes of "
        "models, endpoints, jobs and runs are lost",
        f"models/{lost}/1 has no record",
    ]
    assert all(note.partition(" ")[2] in service.log() for note in notes)
    assert "Lost and found" in service.call("GET", "/").text
    assert str(folder) in service.call("GET", "/").text


def test_a_second_service_on_a_root_or_a_port_is_refused_and_stop_is_idempotent(service, tmp_path):
    log, root, port = tmp_path / "log", str(service.root), service.url.rpartition(":")[2]
    code, output = run_cli(log, "serve", "--root", root)
    assert (code, service.url in output) == (2, True)
    code, output = run_cli(log, "serve", "--root", str(tmp_path / "other"), "--port", port)
    assert (code, f"Port {port}" in output) == (2, True)

    assert run_cli(log, "stop", "--root", root)[0] == 0
    assert service.process.wait(60) == 0
    assert not (service.root / "server.json").exists()
    code, output = run_cli(log, "stop", "--root", root)
    assert (code, "No service runs" in output) == (0, True)


def test_a_service_with_while_used_stops_with_its_last_user(tmp_path):
    user = (tmp_path / "users").open("a")
    fcntl.flock(user, fcntl.LOCK_SH)
    with running_service(tmp_path, "--while-used") as service:
        assert service.call("GET", "models").ok
        user.close()
        assert service.process.wait(30) == 0
    assert not (tmp_path / "server.json").exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_service_in_order_and_leaves_no_temporary_folder(service, signum):
    temp_dir = (service.root / "tmp").readlink()
    assert temp_dir.is_dir()
    service.process.send_signal(signum)
    assert service.process.wait(20) == 0
    assert not temp_dir.exists()
    assert f"Stopping on {signum.name}" in service.log()


@pytest.mark.linux("tgkill")
def test_a_signal_received_by_another_thread_stops_the_service(service):
    pid = service.process.pid
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    other = next(thread for thread in threads if thread != pid)

    assert ctypes.CDLL(None).tgkill(pid, other, signal.SIGTERM) == 0

    assert service.process.wait(20) == 0
