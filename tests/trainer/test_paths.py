from pathlib import Path

import pytest

from trainer import paths
from trainer.errors import ConfigError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("address", "uri", "bucket"),
    [
        pytest.param("gs://b/x/y", "gs://b/x/y", "gs://b", id="bucket"),
        pytest.param("/gcs/b/x/y", "gs://b/x/y", "gs://b", id="mounted"),
        pytest.param(Path("/gcs/b"), "gs://b", "gs://b", id="mounted-path"),
        pytest.param("/data/x", "/data/x", "", id="local"),
        pytest.param("file:///data/x", "/data/x", "", id="file"),
        pytest.param("/gcsfuse/x", "/gcsfuse/x", "", id="looks-alike"),
    ],
)
def test_each_address_has_one_form_for_tensorflow_and_google(address, uri, bucket):
    assert paths.uri(address) == uri
    assert paths.bucket_of(address) == bucket
    assert paths.is_in_bucket(address) == bool(bucket)
    assert paths.is_bucket_uri(address) == (address == uri and bool(bucket))


def test_a_bucket_is_opened_where_it_is_mounted(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CLOUD_MOUNT", f"{tmp_path}/")

    assert paths.local_path("gs://b/x") == tmp_path / "b" / "x"
    assert paths.local_path("file:///data/x") == Path("/data/x")
    assert paths.local_path("x") == Path("x")


def test_below_the_local_service_a_bucket_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.LOCAL_BUCKETS, str(tmp_path))
    assert paths.local_path("gs://b/x") == tmp_path / "b" / "x"


def test_tensorflow_does_not_look_for_a_bucket_without_access(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ACCESS_FILES", (f"{tmp_path}/absent",))
    monkeypatch.setattr(paths, "ACCESS_VARIABLES", ("ACCESS",))
    monkeypatch.setattr(paths, "MACHINE_FILE", tmp_path / "absent")
    monkeypatch.delenv(paths.LOCAL_BUCKETS, raising=False)
    assert paths.opened("/x") == "/x"
    with pytest.raises(ConfigError, match=r"gs://b/x: .* set VERTEX_LOCAL_BUCKETS to a folder"):
        paths.opened("/gcs/b/x")
    monkeypatch.setenv("ACCESS", "1")
    assert paths.opened("gs://b/x") == "gs://b/x"
    monkeypatch.setenv(paths.LOCAL_BUCKETS, str(tmp_path))
    assert paths.opened("gs://b/x") == f"{tmp_path}/b/x"


def test_a_bucket_that_is_not_mounted_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "CLOUD_MOUNT", f"{tmp_path}/absent/")

    with pytest.raises(ValueError, match="gs://b/x: buckets are reached through"):
        paths.local_path("gs://b/x")
