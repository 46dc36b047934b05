"""Batch predictions: Google's classes, own requests, errors, cancels and kills."""

import gzip
import json
import struct
from pathlib import Path

import pytest

from vertex_local.batch.instances import BadRow, read_instances
from vertex_local.tests.support.jobs import wait_for_end
from vertex_local.tests.support.service import running_service
from vertex_local.tests.support.waiting import wait_until

MACHINE = {"machineSpec": {"machineType": "n1-standard-2"}}


def request(model: str, source: Path | str, target: Path, kind: str = "jsonl", **fields):
    return {
        "displayName": "b",
        "model": model,
        "inputConfig": {"instancesFormat": kind, "gcsSource": {"uris": [str(source)]}},
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": str(target)},
        },
        "dedicatedResources": MACHINE,
        **fields,
    }


def written(job, name: str) -> list[str]:
    folder = Path(job["outputInfo"]["gcsOutputDirectory"])
    return [line for file in sorted(folder.glob(name)) for line in file.read_text().splitlines()]


def results(job) -> list[dict]:
    return [json.loads(line) for line in written(job, "prediction.results-*")]


def test_googles_classes_predict_files(service, upload, aiplatform, tmp_path):
    (tmp_path / "1.jsonl").write_text("1\n2\n\n")
    (tmp_path / "2.jsonl").write_text("3\n" * 200)
    model = aiplatform.Model(upload()["model"])
    job = model.batch_predict(
        job_display_name="doubles",
        gcs_source=[f"gs:///{tmp_path}/[12].jsonl"],
        gcs_destination_prefix=f"gs:///{tmp_path}/out",
        machine_type="n1-standard-2",
        batch_size=32,
    )
    assert job.state.name == "JOB_STATE_SUCCEEDED"
    assert (job.completion_stats.successful_count, job.completion_stats.failed_count) == (202, 0)
    found = service.do("GET", f"/v1/{job.resource_name}")
    assert found["modelVersionId"] == "1"
    [folder] = (tmp_path / "out").iterdir()
    assert found["outputInfo"]["gcsOutputDirectory"] == f"gs:///{folder}"
    assert folder.name.startswith("prediction-tiny-2")
    names = ["prediction.errors_stats-00000-of-00001"]
    names += [f"prediction.results-0000{number}-of-00002" for number in range(2)]
    assert sorted(file.name for file in folder.iterdir()) == names
    lines = [json.loads(line) for line in (folder / names[2]).read_text().splitlines()]
    assert [(line["instance"], line["prediction"]["double"]) for line in lines] == [(3, 6)] * 200
    listed = f'resource.type="ml_job" AND resource.labels.job_id="{job.name}"'
    project = service.parent.partition("/locations")[0]
    body = {"resourceNames": [project], "filter": listed}
    assert service.do("POST", "/v2/entries:list", body)["entries"]
    job.delete()
    assert folder.exists()
    assert service.call("GET", f"/v1/{job.resource_name}").status_code == 404


def test_bad_rows_are_counted_with_their_errors(service, upload, tmp_path):
    (tmp_path / "rows.jsonl").write_text('1\n"no number"\n{"a"\n4\n')
    body = request(upload()["model"], tmp_path / "rows.jsonl", tmp_path / "out")
    job = wait_for_end(service, service.do("POST", "batchPredictionJobs", body))
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert job["completionStats"] == {"successfulCount": "2", "failedCount": "2"}
    assert [line["prediction"]["double"] for line in results(job)] == [2, 8]
    refused, bad = sorted(written(job, "prediction.errors_stats-*"))
    assert refused.startswith("('Post request fails. Cannot get predictions.")
    assert bad.startswith("('it is not JSON")
    assert "Non-OK result 400" in refused
    assert "not a number" in refused
    assert refused.endswith(", 1)")


@pytest.mark.parametrize(
    ("arguments", "source", "reason"),
    [
        (["failing"], "1\n", "Non-OK result 500"),
        ([], "", "No row was predicted."),
    ],
)
def test_a_job_without_predictions_fails(service, upload, tmp_path, *, arguments, source, reason):
    (tmp_path / "rows.jsonl").write_text(source)
    model = upload(*arguments)["model"]
    body = request(model, tmp_path / "rows.jsonl", tmp_path / "out")
    job = wait_for_end(service, service.do("POST", "batchPredictionJobs", body))
    assert job["state"] == "JOB_STATE_FAILED"
    assert reason in job["error"]["message"]


def test_a_file_that_cannot_be_read_fails_no_other(service, upload, tmp_path):
    (tmp_path / "1.jsonl.gz").write_bytes(gzip.compress(b"1\n" * 9)[:-9])
    (tmp_path / "2.jsonl").write_text("2\n")
    body = request(upload()["model"], tmp_path / "*.jsonl*", tmp_path / "out")
    job = wait_for_end(service, service.do("POST", "batchPredictionJobs", body))
    assert (job["state"], job["completionStats"]["failedCount"]) == ("JOB_STATE_SUCCEEDED", "1")
    [failure] = written(job, "prediction.errors_stats-*")
    assert "1.jsonl.gz cannot be read" in failure
    assert [line["instance"] for line in results(job)][-1] == 2


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        ({"model": "projects/p/locations/l/models/9"}, 404, "models/9 is not found"),
        ({"inputConfig": {"instancesFormat": "bigquery"}}, 501, 'instancesFormat "bigquery"'),
        ({"inputConfig": {"instancesFormat": "jsonl"}}, 400, 'uris: "" is not on this machine'),
        (
            {"inputConfig": {"instancesFormat": "csv", "gcsSource": {"uris": ["/no/*.csv"]}}},
            400,
            '"/no/*.csv" matches no file',
        ),
        ({"outputConfig": {"predictionsFormat": "csv"}}, 501, 'predictionsFormat "csv"'),
        ({"outputConfig": {"predictionsFormat": "jsonl"}}, 400, 'outputUriPrefix "" is not on'),
        ({"generateExplanation": True}, 501, "generateExplanation is not supported"),
        ({"instanceConfig": {"keyField": "id"}}, 501, "instanceConfig is not supported"),
    ],
)
def test_what_cannot_be_predicted_is_refused(service, upload, tmp_path, *, change, code, reason):
    (tmp_path / "rows.jsonl").write_text("1\n")
    body = request(upload()["model"], tmp_path / "rows.jsonl", tmp_path / "out")
    response = service.call("POST", "batchPredictionJobs", body | change)
    assert response.status_code == code
    assert reason in response.json()["error"]["message"]
    assert service.do("GET", "batchPredictionJobs") == {"batchPredictionJobs": []}


def waiting(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text('"wait"\n300\n')
    return path


def test_a_cancelled_job_ends_at_once_with_its_server(service, upload, tmp_path):
    body = request(upload()["model"], waiting(tmp_path), tmp_path / "out")
    created = service.do("POST", "batchPredictionJobs", body)
    wait_until(lambda: list(tmp_path.glob("out/*/*")), "the first file")
    service.do("POST", f"/v1/{created['name']}:cancel", {})
    job = wait_for_end(service, created)
    assert (job["state"], job["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)


@pytest.mark.parametrize("is_killed", [True, False])
def test_the_next_service_begins_a_job_anew(own_service, upload, tmp_path, is_killed):
    hold = tmp_path / "hold"
    hold.touch()
    model = upload(f"hold={hold}")["model"]
    (tmp_path / "rows.jsonl").write_text("1\n2\n")
    body = request(model, tmp_path / "rows.jsonl", tmp_path / "out")
    created = own_service.do("POST", "batchPredictionJobs", body)
    if is_killed:
        own_service.kill()
    else:
        own_service.stop()
    hold.unlink()
    with running_service(own_service.root) as after:
        job = wait_for_end(after, created)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert [line["instance"] for line in results(job)] == [1, 2]


def record(data: bytes) -> bytes:
    return struct.pack("<QI", len(data), 0) + data + bytes(4)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("jsonl", b'{"a": 1}\n\n[1, 2]\nno', [{"a": 1}, [1, 2], BadRow("it is not JSON")]),
        (
            "csv",
            b'"city","size"\n"Bonn",3\nKiel,4\n"Ulm"\n"Trier",1\n',
            [
                ["Bonn", 3.0],
                BadRow("a text must be in double quotes"),
                BadRow("it has 1 values, not 2"),
                ["Trier", 1.0],
            ],
        ),
        ("tf-record", record(b"a") + record(b""), [{"b64": "YQ=="}, {"b64": ""}]),
        ("tf-record-gzip", gzip.compress(record(b"ab"), mtime=0), [{"b64": "YWI="}]),
        ("tf-record", record(b"a") + record(b"b")[:-2], [{"b64": "YQ=="}, BadRow("/")]),
    ],
)
def test_rows_become_instances_as_on_vertex_ai(tmp_path, kind, content, expected):
    path = tmp_path / "rows"
    path.write_bytes(content)
    for found, wanted in zip(read_instances(path, kind), expected, strict=True):
        if isinstance(wanted, BadRow):
            assert found.reason.startswith(wanted.reason)
        else:
            assert found == wanted
