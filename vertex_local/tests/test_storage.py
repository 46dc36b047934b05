"""Buckets as folders: in requests, in the paths of programs, and for Google's storage client."""

import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from google.api_core.exceptions import BadRequest, NotFound, PreconditionFailed
from google.cloud import storage
from kfp import dsl

from vertex_local import client
from vertex_local.machine import buckets
from vertex_local.machine.files import local_path
from vertex_local.tests.support.pipeline_runs import STEP, Runs, task_detail
from vertex_local.tests.support.service import (
    CREDENTIALS,
    container_spec,
    run_cli,
    running_service,
    sdk_at,
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    place = tmp_path_factory.mktemp("storage")
    with running_service(place / "vertex", "--buckets", str(place / "buckets")) as running:
        yield running


@pytest.fixture
def address(service):
    return client.announced(service.root)["storage"]


@pytest.fixture
def folder(service, address):
    """Return the folder of the buckets; delete the test's at its end."""
    path = service.root.with_name("buckets")
    yield path
    for bucket in path.iterdir():
        shutil.rmtree(bucket)
        bucket.mkdir()  # an empty bucket, which the API deletes
        requests.delete(f"{address}/storage/v1/b/{bucket.name}", timeout=20).raise_for_status()


@pytest.fixture
def bucket(address, folder, monkeypatch):
    """Return a new bucket of Google's client."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
    opened = storage.Client(project="demo", credentials=CREDENTIALS)
    return opened.create_bucket("mine")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("gs://mine/a/b.txt", "FOLDER/mine/a/b.txt"),
        ("gs://mine", "FOLDER/mine"),
        ("gs:///tmp/a", "/tmp/a"),
        ("gs://", None),
        ("gs://mine/a/../../other", None),
        ("gs://../etc", None),
        ("gs://Mine/a", None),
        ("gs://10.0.0.1/a", None),
        ("gs://-ab/a", None),
        (f"gs://{'m' * 64}/a", None),
        (f"gs://{'m' * 60}.{'n' * 60}/a", f"FOLDER/{'m' * 60}.{'n' * 60}/a"),
        ("gs://mine/a\0b", None),
        ("gs:////../etc", None),
    ],
)
def test_an_address_is_a_path_in_its_bucket(monkeypatch, tmp_path, uri, path):
    monkeypatch.setenv(buckets.VARIABLE, str(tmp_path))
    expected = Path(path.replace("FOLDER", str(tmp_path))) if path else None
    assert local_path(uri) == expected
    if path and "FOLDER" in path:
        assert buckets.uri_of(str(expected)) == uri
    monkeypatch.delenv(buckets.VARIABLE)
    assert local_path(uri) == (expected if uri == "gs:///tmp/a" else None)


CONTAINED = """\
import sys
from pathlib import Path
from vertex_local.machine import buckets, namespaces

buckets.MOUNT = Path(sys.argv[1], "gcs")
try:
    namespaces.contain(Path(sys.argv[1]))
    buckets.mount()
except OSError:
    sys.exit(77)
sys.exit(not (buckets.MOUNT / "mine").is_dir())
"""


@pytest.mark.linux("mount namespaces")
def test_programs_see_the_buckets_below_gcs_where_there_is_such_a_folder(tmp_path):
    mount, folder = tmp_path / "gcs", tmp_path / "buckets"
    mount.mkdir()
    (folder / "mine").mkdir(parents=True)
    # A process of one thread, as a supervisor is.
    words, env = [sys.executable, "-c", CONTAINED, str(tmp_path)], {buckets.VARIABLE: str(folder)}
    code = subprocess.run(words, env=os.environ | env, check=False, timeout=60).returncode
    if code == 77:
        pytest.skip("this system allows no namespaces")
    assert code == 0
    assert list(mount.iterdir()) == [], "seen by the programs only"


def test_objects_are_files_and_files_are_objects(bucket, folder):
    bucket.blob("a/b.txt").upload_from_string("first")
    assert (folder / "mine" / "a" / "b.txt").read_text() == "first"
    (folder / "mine" / "a" / "c.txt").write_text("second")
    (folder / "mine" / "link").symlink_to("/etc/hostname")
    assert [blob.name for blob in bucket.list_blobs()] == ["a/b.txt", "a/c.txt"]
    listing = bucket.list_blobs(delimiter="/")
    assert (list(listing), listing.prefixes) == ([], {"a/"})
    assert bucket.blob("a/c.txt").download_as_text() == "second"
    (folder / "mine" / "a" / "b.txt").write_text("changed")
    assert bucket.blob("a/b.txt").download_as_text() == "changed"
    bucket.copy_blob(bucket.blob("a/c.txt"), bucket, "copied.txt")
    assert (folder / "mine" / "copied.txt").read_text() == "second"
    bucket.blob("a/b.txt").delete()
    assert not (folder / "mine" / "a" / "b.txt").exists()
    (folder / "mine" / "a" / "c.txt").unlink()
    assert not bucket.blob("a/c.txt").exists()
    with pytest.raises(NotFound):
        bucket.blob("link").download_as_text()
    (folder / "other").mkdir()
    assert {found.name for found in bucket.client.list_buckets()} == {"mine", "other"}


def test_an_object_that_ends_with_a_slash_is_a_folder(bucket, folder):
    bucket.blob("data/").upload_from_string("")
    assert (folder / "mine" / "data").is_dir()
    assert bucket.blob("data/").download_as_bytes() == b""
    bucket.blob("data/rows.csv").upload_from_string("a,b")
    (folder / "mine" / "made" / "empty").mkdir(parents=True)
    assert [blob.name for blob in bucket.list_blobs()] == ["data/", "data/rows.csv", "made/empty/"]
    listing = bucket.list_blobs(delimiter="/")
    assert (list(listing), listing.prefixes) == ([], {"data/", "made/"})
    generation = bucket.get_blob("data/").generation
    bucket.blob("data/").upload_from_string("", if_generation_match=generation)
    bucket.blob("data/").delete()
    assert [blob.name for blob in bucket.list_blobs()] == ["data/rows.csv", "made/empty/"]
    bucket.delete(force=True)
    assert not (folder / "mine").exists()


def test_a_name_is_a_files_or_a_folders(bucket, folder):
    bucket.blob("a/b").upload_from_string("x")
    for name in ("a", "a/b/", "a/b/c"):
        with pytest.raises(BadRequest, match="a name is either; choose another"):
            bucket.blob(name).upload_from_string("")
    with pytest.raises(BadRequest, match="an object that ends with / is a folder here"):
        bucket.blob("c/").upload_from_string("x")
    bucket.blob("a/b").delete()
    bucket.blob("a").upload_from_string("y")  # its folder went with its last file


@pytest.mark.parametrize("content", [b"", b"{}"], ids=["empty", "JSON"])
def test_a_media_upload_is_stored_as_it_is(bucket, folder, content):
    """As TensorFlow and curl upload: tf.io.gfile.makedirs sends an empty one for `DIR/`."""
    address = os.environ["STORAGE_EMULATOR_HOST"]
    for name in ("file.json", "folder/file.json"):
        response = requests.post(
            f"{address}/upload/storage/v1/b/mine/o?uploadType=media&name={name}",
            data=content,
            headers={"Content-Type": "application/json"},
            timeout=20,
        )
        assert (response.status_code, response.json()["size"]) == (200, str(len(content)))
        assert (folder / "mine" / name).read_bytes() == content


def test_nothing_is_written_through_a_link_that_leads_out_of_the_bucket(bucket, folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (folder / "mine" / "file").symlink_to(outside / "kept")
    (folder / "mine" / "folder").symlink_to(outside)
    for name in ("file", "folder/kept", "folder/new", "folder/more/new", "folder/new/"):
        with pytest.raises(BadRequest, match="a symbolic link leads out of the bucket"):
            bucket.blob(name).upload_from_string("")
        with pytest.raises(NotFound):
            bucket.blob(name).delete()
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "kept"


@pytest.mark.parametrize("name", ["UPPER", "ab", "a..b", "10.0.0.1", "google-x", "m" * 64])
def test_a_name_that_cloud_storage_refuses_makes_no_bucket(bucket, folder, name):
    with pytest.raises(BadRequest, match=f'bucket "{name}": the name of a bucket has 3 to 63'):
        bucket.client.create_bucket(name)
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_large_objects_arrive_in_parts_and_many_at_a_time(bucket, folder):
    content = os.urandom(3_000_000)
    large = bucket.blob("large.bin", chunk_size=1 << 20)
    large.upload_from_string(content)
    assert (folder / "mine" / "large.bin").read_bytes() == content
    assert large.download_as_bytes(start=10, end=19) == content[10:20]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: bucket.blob(f"many/{n}").upload_from_string(f"{n}"), range(40)))
    assert len(list(bucket.list_blobs(prefix="many/", page_size=7))) == 40


def test_a_generation_that_is_not_the_wanted_one_is_refused(bucket, folder):
    note = bucket.blob("note.txt")
    note.upload_from_string("a", if_generation_match=0)
    for wrong in (0, note.generation + 1):
        with pytest.raises(PreconditionFailed):
            note.upload_from_string("b", if_generation_match=wrong)
        with pytest.raises(PreconditionFailed):
            note.delete(if_generation_match=wrong)
    note.upload_from_string("c", if_generation_match=note.generation)
    (folder / "mine" / "note.txt").write_text("by a program")
    with pytest.raises(PreconditionFailed):
        note.upload_from_string("d", if_generation_match=note.generation)
    assert (folder / "mine" / "note.txt").read_text() == "by a program"


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        (("POST", "/upload/storage/v1/b/mine/o?uploadType=media&name=../../out"), {}, 400),
        (("GET", "/download/storage/v1/b/mine/o/..%2F..%2Fvertex%2Fvertex.db?alt=media"), {}, 400),
        (("POST", "/storage/v1/b"), {"Content-Type": "application/json"}, 400),
        (("POST", "/storage/v1/b/mine/o/kept/compose"), {}, 400),
        (("GET", "/wipe"), {}, 404),
        (("GET", "/storage/v1/b"), {"Origin": "https://example.com"}, 403),
        (("GET", "/storage/v1/b"), {"Host": "example.com"}, 403),
    ],
)
def test_strange_requests_are_refused(bucket, folder, request_line, headers, status):
    bucket.blob("kept").upload_from_string("a")
    address = os.environ["STORAGE_EMULATOR_HOST"]
    method, path = request_line
    session = requests.Session()
    prepared = requests.Request(method, "http://h", data="x", headers=headers).prepare()
    prepared.url = f"{address}{path}"  # as it is: requests would normalize it
    assert session.send(prepared, timeout=20).status_code == status
    assert bucket.blob("kept").download_as_text() == "a"
    assert not list(folder.parent.rglob("out"))


def test_a_client_that_says_nothing_delays_no_other(bucket, address):
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port)):
        bucket.blob("a").upload_from_string("a")


@dsl.component(**STEP)
def write(file: dsl.Output[dsl.Dataset], address: dsl.OutputPath(str)) -> str:
    import os

    file.uri = file.metadata["copy"] = "gs://mine/elsewhere"
    with open(file.path, "w") as opened, open(address, "w") as text:
        opened.write("made by a step")
        text.write(file.uri)
    return os.environ["STORAGE_EMULATOR_HOST"]


@dsl.component(**STEP)
def read(file: dsl.Input[dsl.Dataset], other: dsl.Input[dsl.Dataset], address: str) -> str:
    assert file.metadata["copy"] == address == "gs://mine/elsewhere"
    with open(file.path) as opened, open(other.path) as imported:
        return opened.read() + ", " + imported.read()


@dsl.pipeline(name="in-buckets")
def in_buckets():
    imported = dsl.importer(artifact_uri="gs://public/data.csv", artifact_class=dsl.Dataset)
    written = write().outputs
    read(file=written["file"], other=imported.output, address=written["address"])


def test_a_run_keeps_its_outputs_in_a_bucket(service, bucket, folder, address, tmp_path):
    (folder / "public").mkdir()
    (folder / "public" / "data.csv").write_text("imported")
    runs = Runs(service, tmp_path)
    runs.root = "gs://mine/runs"
    job = runs.run(in_buckets)
    assert job["state"] == "PIPELINE_STATE_SUCCEEDED", job["error"]
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://mine/runs"
    outputs = task_detail(job, "read")["execution"]["metadata"]
    assert outputs["output:Output"] == "made by a step, imported"
    assert task_detail(job, "write")["execution"]["metadata"]["output:Output"] == address
    [artifact] = task_detail(job, "write")["outputs"]["file"]["artifacts"]
    assert artifact["uri"] == "gs://mine/elsewhere"
    [task] = [task for task in job["jobDetail"]["taskDetails"] if task["taskName"] == "read"]
    place = f"mine/runs/demo/{job['name'].rpartition('/')[2]}/read_{task['taskId']}"
    assert (folder / place / "executor_output.json").exists()
    assert bucket.blob("elsewhere").download_as_text() == "made by a step"


GFILE = """
import tensorflow as tf
files = tf.io.gfile
with files.GFile("gs://mine/new/a", "w") as file:
    file.write("by gfile")
files.copy("gs://mine/new/a", "gs://mine/b/c")
module = tf.Module()
module.one = tf.Variable(1.0)
module.add = tf.function(lambda x: x + module.one, [tf.TensorSpec([], tf.float32)])
tf.saved_model.save(module, "gs://mine/model")
model = tf.saved_model.load("gs://mine/model")
saved = tf.train.Checkpoint(module=module).save("gs://mine/checkpoints/c")
tf.train.Checkpoint(module=model).restore(saved).assert_existing_objects_matched()
with tf.io.TFRecordWriter("gs://mine/new/records") as writer:
    writer.write(b"record")
names = tf.data.Dataset.from_tensor_slices(["gs://mine/new/records"])
[record] = names.interleave(tf.data.TFRecordDataset).as_numpy_iterator()
print(files.glob("gs://mine/b/*"), files.exists("gs://mine/b"), files.exists("gs://mine/d"),
      float(model.add(2.0)), saved, record, tf.io.read_file("gs://mine/b/c").numpy())
"""
FOUND = "['gs://mine/b/c'] True False 3.0 gs://mine/checkpoints/c-1 b'record' b'by gfile'"


def test_a_program_uses_buckets_by_tensorflow(service, bucket, tmp_path):
    pytest.importorskip("tensorflow")
    words = ["exec", "--root", str(service.root), "--", sys.executable, "-c", GFILE]
    _, output = run_cli(tmp_path / "log", *words)
    assert output.splitlines()[-1] == FOUND
    assert bucket.blob("new/a").download_as_text() == "by gfile"


def test_jobs_and_models_use_buckets(service, folder, artifact_folder):
    sdk = sdk_at(service)
    (folder / "mine").mkdir(parents=True)
    code = "import os; from google.cloud.storage import Blob, Client; "
    code += "model = Blob.from_uri(os.environ['AIP_MODEL_DIR'] + 'saved_model.pb', Client())"
    code += "; model.upload_from_string('trained')"
    container = {"image_uri": "any", "command": ["python", "-c", code]}
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    job = sdk.CustomJob(
        display_name="j",
        worker_pool_specs=[{**pool, "container_spec": container}],
        base_output_dir="gs://mine/out",
        staging_bucket="gs://mine",
    )
    job.run()
    assert (folder / "mine" / "out" / "model" / "saved_model.pb").read_text() == "trained"
    spec = {"artifactUri": "gs://mine/out/model", "containerSpec": container_spec()}
    name = service.do("POST", "models:upload", {"model": {"displayName": "m", **spec}})["model"]
    assert service.do("GET", f"/v1/{name}")["artifactUri"] == spec["artifactUri"]
    shutil.rmtree(folder / "mine" / "out")  # the server reads the copy
    endpoint = sdk.Model(name).deploy(machine_type="n1-standard-2")
    assert endpoint.predict([1]).predictions[0]["files"] == ["saved_model.pb"]
    lost = {"displayName": "m", **spec, "artifactUri": "gs://mine/nothing"}
    response = service.call("POST", "models:upload", {"model": lost})
    assert "does not exist" in response.json()["error"]["message"]


def test_the_refusal_of_an_address_has_its_own_reason(service):
    for uri, reason in {
        "gs://ab/m": "names no bucket: the name of a bucket has 3 to 63",
        "gs://mine/../m": "leads out of its bucket",
        "s3://mine/m": "is not on this machine; give an absolute path, file:///path or gs://BUCKET/NAME",
    }.items():
        spec = {"displayName": "m", "artifactUri": uri, "containerSpec": {"imageUri": "i"}}
        message = service.call("POST", "models:upload", {"model": spec}).json()["error"]["message"]
        assert message.startswith(f'model.artifactUri "{uri}" {reason}')
        assert "--buckets" not in message


def test_without_buckets_the_refusal_says_how_to_get_them(tmp_path):
    with running_service(tmp_path / "vertex") as plain:
        assert json.loads((plain.root / "server.json").read_text())["storage"] == ""
        model = {
            "displayName": "m",
            "artifactUri": "gs://mine/m",
            "containerSpec": {"imageUri": "i"},
        }
        response = plain.call("POST", "models:upload", {"model": model})
        assert "--buckets DIR" in response.json()["error"]["message"]
