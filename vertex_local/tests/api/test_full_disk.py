"""A full disk of 24 MB: the service reads and deletes, and recovers by itself."""

import os
import resource
import subprocess
import time
from contextlib import suppress
from itertools import count

import pytest
from google.api_core import exceptions

from vertex_local.api.database import reserve
from vertex_local.errors import ApiError
from vertex_local.processes.group import await_end
from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.kills import kill_runner
from vertex_local.tests.support.pipeline_runs import Runs
from vertex_local.tests.support.pipeline_steps import one_hangs
from vertex_local.tests.support.service import (
    RunningService,
    give_token,
    launch_fork,
    run_cli,
    sdk_at,
)
from vertex_local.tests.support.strangers import needs_root
from vertex_local.tests.support.waiting import wait_until

pytestmark = needs_root
DISK_BYTES = 24 * 1024 * 1024


@pytest.fixture
def disk(tmp_path):
    """A small file system."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def running(disk):
    """A service whose root folder, with its log, is on the small disk."""
    root = disk / "vertex"
    root.mkdir()
    give_token(root)
    service = RunningService(root=root, launch=launch_fork)
    service.session.trust_env = False
    service.start()
    yield service
    service.session.close()
    if service.process.poll() is None:
        assert service.stop() == 0, service.log()


def fill(disk, name="filler"):
    """Write until there is no space for another byte."""
    with (disk / name).open("wb", buffering=0) as file:
        for size in (1024 * 1024, 4096, 1):
            with suppress(OSError):
                while file.write(b"x" * size):
                    pass
    assert os.statvfs(disk).f_bavail == 0


def create(service, name="x"):
    return service.call("POST", "endpoints", {"displayName": name})


def names(service, kind="endpoints"):
    return [one["name"].rpartition("/")[2] for one in service.do("GET", kind)[kind]]


def assert_refused(response):
    error = response.json()["error"]
    assert (response.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED"), error
    assert "No space left" in error["message"]


def assert_only_reads_and_deletes(service, disk):
    """Delete them, also repeatedly, until none is left."""
    before = names(service)
    for _ in range(3):
        assert_refused(create(service))
        assert_refused(service.call("PATCH", f"endpoints/{before[0]}?updateMask=labels", {}))
        assert names(service) == before
    assert service.call("GET", "/").ok
    for name in before:
        service.do("DELETE", f"endpoints/{name}")
    assert names(service) == []
    assert "Traceback" not in service.log()


def fill_with_endpoints(service, number):
    for n in range(number):
        assert create(service, f"e{n}").ok


@pytest.mark.parametrize("end", ["", "stop", "kill"])
def test_on_a_full_disk_a_service_that_runs_or_starts_reads_and_deletes(running, disk, end):
    fill_with_endpoints(running, 60)
    if end:
        getattr(running, end)()
    fill(disk)
    if end:
        running.start()
    assert_only_reads_and_deletes(running, disk)
    (disk / "filler").unlink()
    assert create(running).ok
    assert (running.root / reserve.NAME).stat().st_size == reserve.RESERVED_BYTES


def model(artifact, *, megabytes):
    artifact.mkdir()
    (artifact / "weights").write_bytes(os.urandom(megabytes * 1024 * 1024))
    return {"model": {"displayName": "m", "artifactUri": str(artifact)}}


def test_deleting_a_model_frees_the_space_for_the_next_one(running, disk, tmp_path):
    large, small = (model(tmp_path / f"{size}", megabytes=size) for size in (12, 6))
    first = running.do("POST", "models:upload", large)["model"]
    failed = running.wait_for(running.call("POST", "models:upload", large).json())
    assert failed["error"]["code"] == 8  # RESOURCE_EXHAUSTED
    fill(disk)
    assert_refused(running.call("POST", "models:upload", small))
    running.do("DELETE", f"/v1/{first}")
    assert running.do("POST", "models:upload", small)["model"] != first
    assert len(names(running, "models")) == 1


def test_job_that_fills_the_disk_ends_and_is_deleted(running, disk):
    script = f"open({str(disk / 'filler')!r}, 'wb').write(b'x' * {2 * DISK_BYTES})"
    created = running.do("POST", "customJobs", python_job(script))
    assert wait_for_end(running, created)["state"] == "JOB_STATE_FAILED"
    assert_refused(running.call("POST", "customJobs", python_job(script)))
    running.do("DELETE", f"/v1/{created['name']}")
    assert names(running, "customJobs") == []


def start_job(service, disk):
    """Start a job that fails once the file `go` beside the disk exists; return its name."""
    go = disk.parent / "go"
    script = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n1 / 0"
    name = service.do("POST", "customJobs", python_job(script))["name"]
    state = service.root / "jobs" / name.rpartition("/")[2] / "state.json"
    wait_until(lambda: '"state": "running",\n   "exit_code"' in state.read_text(), "the job")
    return name


def fill_again_and_again(service, disk):
    """Fill the disk, and what the service frees of its reserve."""
    fill(disk)
    create(service)
    fill(disk, "second")


def empty(disk):
    for path in (disk / "filler", disk / "second"):
        path.unlink(missing_ok=True)


def test_a_job_that_fails_on_a_full_disk_says_so(running, disk):
    name = start_job(running, disk)
    fill_again_and_again(running, disk)
    (disk.parent / "go").touch()
    assert await_end(running.root / "jobs" / name.rpartition("/")[2], timeout_seconds=30)
    empty(disk)
    assert "o space left" in wait_for_end(running, {"name": name})["error"]["message"]


@pytest.mark.usefixtures("temp_folder")
def test_a_run_whose_runner_ends_on_a_full_disk_ends_once_there_is_space(running, disk, tmp_path):
    assert running.stop() == 0
    log = running.root / "serve.log"
    log.unlink()
    log.symlink_to(tmp_path / "serve.log")  # to read what a full disk would swallow
    running.start()
    runs = Runs(running, tmp_path)
    job = runs.submit(one_hangs, parameterValues={"folder": str(tmp_path)})
    wait_until((tmp_path / "pids").exists, "the step")
    fill_again_and_again(running, disk)
    kill_runner(runs, job)
    wait_until(lambda: "retrying every" in running.log(), "an attempt to record the end")
    assert runs.get(job)["state"] == "PIPELINE_STATE_RUNNING"
    empty(disk)
    ended = runs.wait(job, timeout_seconds=60)
    assert ended["state"] == "PIPELINE_STATE_FAILED"
    assert "No space left where the service keeps its files" in ended["error"]["message"]
    assert (tmp_path / "notes").exists(), "the exit task ran"


def test_a_program_that_takes_all_space_does_not_stop_the_service(running, disk):
    fill_with_endpoints(running, 20)
    fill(disk)
    assert_refused(create(running))
    fill(disk, "second")  # what the reserve has freed
    for name in names(running):
        response = running.call("DELETE", f"endpoints/{name}")
        assert response.status_code in (200, 429), response.text
    assert running.call("GET", "endpoints").ok
    (disk / "second").unlink()
    for name in names(running):
        running.do("DELETE", f"endpoints/{name}")
    assert names(running) == []


def test_without_any_space_the_service_does_not_start_and_keeps_its_data(running, disk):
    fill_with_endpoints(running, 5)
    before = names(running)
    fill(disk)
    assert_refused(create(running))
    assert running.stop() == 0
    fill(disk, "second")
    code, output = run_cli(disk.parent / "log", "serve", "--root", str(running.root))
    assert code == 2, output
    assert "space" in output
    assert "Traceback" not in output
    (disk / "second").unlink()
    running.start()
    assert names(running) == before


def test_the_sdk_reports_a_full_disk_without_retries(running, disk):
    aiplatform = sdk_at(running)
    endpoint = aiplatform.Endpoint.create(display_name="one")
    fill(disk)
    began = time.monotonic()
    with pytest.raises(exceptions.TooManyRequests, match="No space left"):
        aiplatform.Endpoint.create(display_name="two")
    assert time.monotonic() - began < 30, "it is not retried"
    endpoint.delete()
    assert aiplatform.Endpoint.list() == []


def test_a_limit_on_the_size_of_files_is_not_a_full_disk(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        with pytest.raises(ApiError, match=r"may have 1,024 KiB \(ulimit -f\).*4,096 KiB"):
            reserve.Reserve(tmp_path).require_space()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_without_files_to_create_the_reserve_is_used(disk):
    subprocess.run(["mount", "-o", "remount,nr_inodes=40", disk], check=True)
    kept = reserve.Reserve(disk)
    assert kept.restore()
    with suppress(OSError):
        for number in count():
            (disk / str(number)).touch()
    with pytest.raises(ApiError, match="1 files free"):
        kept.require_space()
    for number in range(20):
        (disk / str(number)).unlink()
    kept.require_space()
    assert not kept.is_used
