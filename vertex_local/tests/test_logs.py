"""Cloud Logging's entries:list for the logs of real jobs, and the reading of lines."""

from pathlib import Path
from typing import Any

import pytest

from vertex_local.logs import MAX_LINE_BYTES, read_lines
from vertex_local.tests.support.jobs import python_job, wait_for_end
from vertex_local.tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def run(service, *codes: str) -> str:
    """Run a job to its end; return its id."""
    created = service.do("POST", "customJobs", python_job(*codes))
    assert wait_for_end(service, created)["state"] == "JOB_STATE_SUCCEEDED"
    return created["name"].rpartition("/")[2]


def project_of(service) -> str:
    return service.parent.partition("/locations")[0]


def body_for(service, job_id: str, *, task_name: str = "", **fields: Any) -> dict[str, Any]:
    terms = ['resource.type="ml_job"', f'resource.labels.job_id="{job_id}"']
    if task_name:
        terms.append(f'resource.labels.task_name="{task_name}"')
    return {"resourceNames": [project_of(service)], "filter": " AND ".join(terms), **fields}


def page(service, job_id: str, **fields: Any) -> dict[str, Any]:
    return service.do("POST", "/v2/entries:list", body_for(service, job_id, **fields))


def texts(response: dict[str, Any]) -> list[str]:
    return [entry["textPayload"] for entry in response.get("entries", [])]


def test_the_lines_of_a_finished_job(service):
    job_id = run(service, "print('one'); print('ERROR two')", "")
    response = page(service, job_id)
    assert texts(response) == ["one", "ERROR two"]
    assert "nextPageToken" not in response
    entry = response["entries"][1]
    job = service.do("GET", f"customJobs/{job_id}")
    assert job["createTime"] <= entry.pop("timestamp") <= job["endTime"]
    assert entry == {
        "logName": f"{project_of(service)}/logs/workerpool0-0",
        "resource": {
            "type": "ml_job",
            "labels": {"job_id": job_id, "task_name": "workerpool0-0"},
        },
        "severity": "DEFAULT",
        "textPayload": "ERROR two",
        "insertId": "workerpool0-0-000000000004",
    }


def test_only_lines_since_a_time(service):
    job_id = run(service, "import time; print('old', flush=True); time.sleep(2.5); print('new')")
    old, new = page(service, job_id)["entries"]
    assert old["timestamp"] < new["timestamp"]
    since = {**body_for(service, job_id)}
    since["filter"] += f' AND timestamp>="{new["timestamp"]}"'
    assert texts(service.do("POST", "/v2/entries:list", since)) == ["new"]


def in_turn(folder: Path, chief: str, worker: str) -> tuple[str, str]:
    """Return code for a chief that ends after the worker."""
    done = folder / "worker-is-done"
    wait = f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.02)"
    return f"{chief}\n{wait}", f"{worker}\nopen({str(done)!r}, 'w').close()"


def test_pages_have_every_line_once_and_in_order(service, tmp_path):
    codes = [
        f"[print({name!r}, i) for i in range({n})]" for name, n in (("chief", 9), ("worker", 3))
    ]
    job_id = run(service, *in_turn(tmp_path, *codes))
    for page_size in (1, 3, 50):
        found: list[str] = []
        token = ""
        while token or not found:
            response = page(service, job_id, pageSize=page_size, pageToken=token)
            assert len(texts(response)) <= page_size
            found += texts(response)
            token = response.get("nextPageToken", "")
        assert [text for text in found if "chief" in text] == [f"chief {i}" for i in range(9)]
        assert [text for text in found if "worker" in text] == [f"worker {i}" for i in range(3)]
        assert len(found) == 12
    for name, count in (("workerpool1-0", 3), ("workerpool2-0", 0)):
        only = texts(page(service, job_id, task_name=name))
        assert only == [f"worker {i}" for i in range(count)]


def test_following_a_growing_log(service, tmp_path):
    gate = tmp_path / "gate"
    code = f"""
import os, sys, time
print("first", flush=True)
sys.stdout.write("half ")
sys.stdout.flush()
while not os.path.exists({str(gate)!r}):
    time.sleep(0.02)
print("a line")
sys.stdout.write("no newline at the end")
"""
    created = service.do("POST", "customJobs", python_job(code))
    job_id = created["name"].rpartition("/")[2]
    response = wait_until(lambda: texts(one := page(service, job_id)) == ["first"] and one)
    token = response["nextPageToken"]
    response = page(service, job_id, pageToken=token)
    assert texts(response) == []
    assert response["nextPageToken"] == token
    gate.touch()
    wait_for_end(service, created)
    response = page(service, job_id, pageToken=token)
    assert texts(response) == ["half a line", "no newline at the end"]
    assert "nextPageToken" not in response


def test_an_unknown_job_has_no_entries(service):
    assert page(service, "999") == {}
    job_id = run(service, "print(1)")
    body = {**body_for(service, job_id), "resourceNames": ["projects/other"]}
    assert service.do("POST", "/v2/entries:list", body) == {}


JOB = 'resource.labels.job_id="1"'


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"filter": ""}, "resource.labels.job_id"),
        ({"filter": f'resource.type="gce_instance" AND {JOB}'}, "resource.labels.job_id"),
        ({"filter": f'{JOB} AND textPayload:"x"'}, "filter"),
        ({"filter": f"{JOB} OR {JOB}"}, "filter"),
        (
            {"filter": f'{JOB} AND resource.labels.job_id="2"'},
            "two values of resource.labels.job_id",
        ),
        ({"filter": f'{JOB} AND severity="ERROR"'}, "'severity'"),
        ({"filter": f'{JOB} AND task="../x"'}, "'task'"),
        ({"resourceNames": []}, "resourceNames"),
        ({"resourceNames": ["folders/1"]}, "folders/1"),
        ({"orderBy": "timestamp desc"}, 'use "timestamp asc"'),
        ({"pageSize": "many"}, 'pageSize "many"'),
        ({"pageToken": "../../etc"}, "pageToken"),
    ],
)
def test_an_invalid_request_is_refused(service, fields, words):
    response = service.call("POST", "/v2/entries:list", body_for(service, "1") | fields)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "log"
    path.write_bytes(content)
    return path


def test_an_incomplete_line_is_returned_once_it_is_complete(tmp_path):
    path = write(tmp_path, b"one\ntwo")
    lines, offset, reached_end = read_lines(path, 0, max_lines=10, is_growing=True)
    assert (lines, offset, reached_end) == ([(0, "one")], 4, True)
    lines, offset, reached_end = read_lines(path, 0, max_lines=10, is_growing=False)
    assert (lines, offset, reached_end) == ([(0, "one"), (4, "two")], 7, True)


def test_a_full_page_is_not_the_end(tmp_path):
    path = write(tmp_path, b"one\ntwo\n")
    assert read_lines(path, 0, max_lines=1, is_growing=False) == ([(0, "one")], 4, False)
    assert read_lines(path, 4, max_lines=1, is_growing=False) == ([(4, "two")], 8, True)


def test_a_very_long_line_is_cut_and_the_next_one_is_complete(tmp_path):
    path = write(tmp_path, b"x" * 3_000_000 + b"\nnext\n")
    lines, _, _ = read_lines(path, 0, max_lines=10, is_growing=False)
    assert [text for _, text in lines] == ["x" * MAX_LINE_BYTES + "… (cut)", "next"]


def test_bytes_that_are_not_text_are_replaced(tmp_path):
    lines, _, _ = read_lines(write(tmp_path, b"a\xffb\n"), 0, max_lines=1, is_growing=False)
    assert lines == [(0, "a\ufffdb")]


def test_only_the_last_state_of_a_progress_bar_is_returned(tmp_path):
    path = write(tmp_path, b" 1%\r50%\r100%\r\nend\n")
    lines, _, _ = read_lines(path, 0, max_lines=9, is_growing=False)
    assert [text for _, text in lines] == ["100%", "end"]


def test_an_offset_beyond_the_end_is_allowed(tmp_path):
    assert read_lines(write(tmp_path, b"a\n"), 99, max_lines=9, is_growing=False) == ([], 99, True)
