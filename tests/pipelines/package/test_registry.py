"""Packages in a repository, with KFP's own client."""

import json

import pytest

from components.shared.vertex import retries
from pipelines.cli import main
from pipelines.package import registry
from pipelines.places.target import local_target
from pipelines.schedules.file import read_schedule
from pipelines.schedules.plan import REQUEST, plan_schedule
from tests.support.data.packages import package
from tests.support.servers.package_repository import TOKEN, serving
from trainer.errors import ConfigError

REPOSITORY = "https://us-central1-kfp.pkg.dev/demo/repo"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A fake repository at the official address."""
    from kfp.registry import ApiAuth, RegistryClient

    with serving() as server:
        config = tmp_path / "client.json"
        server.write_client_config(config)
        monkeypatch.setattr(
            registry,
            "client_of",
            lambda host: RegistryClient(host=host, auth=ApiAuth(TOKEN), config_file=str(config)),
        )
        yield server


def test_uploaded_package_is_downloaded_by_tag_and_by_version(repository):
    uploaded = registry.upload(package(), repository=REPOSITORY, tags=["v1", "latest"])

    by_tag, by_latest, by_version = (registry.download(a) for a in uploaded.addresses)
    assert uploaded.addresses[0] == f"{REPOSITORY}/tiny-one/v1"
    assert by_tag.spec == by_latest.spec == by_version.spec == package().spec
    assert by_tag.address == f"{REPOSITORY}/tiny-one/v1"


def test_the_same_package_is_one_version_and_its_tags_move(repository):
    first = registry.upload(package(), repository=REPOSITORY, tags=["latest"])
    again = registry.upload(package(), repository=REPOSITORY, tags=["v1"])
    second = registry.upload(package("r.example/i:2"), repository=REPOSITORY, tags=["latest"])

    assert first.version == again.version != second.version
    assert len(repository.versions) == 2
    assert "r.example/i:2" in registry.download(f"{REPOSITORY}/tiny-one/latest").text
    assert registry.download(f"{REPOSITORY}/tiny-one/v1").spec == package().spec


def test_repository_refusal_is_reported(repository):
    with pytest.raises(registry.RegistryError, match="404 tiny-one/v9 not found"):
        registry.download(f"{REPOSITORY}/tiny-one/v9")


def test_transient_repository_failure_is_retried(repository, monkeypatch):
    monkeypatch.setattr(retries, "_backoff", lambda state: 0)
    repository.failures = [503, 429]
    uploaded = registry.upload(package(), repository=REPOSITORY, tags=["v1"])
    repository.failures = [503, 429]
    assert registry.download(uploaded.addresses[0]).spec == package().spec
    assert repository.num_requests == 6
    assert len(repository.versions) == 1

    repository.failures = [503] * 100
    with pytest.raises(
        registry.RegistryError, match=f"failed after {retries.MAX_ATTEMPTS} attempts"
    ):
        registry.download(uploaded.addresses[0])


@pytest.mark.parametrize(
    ("repository_url", "tags", "message"),
    [
        ("http://us-kfp.pkg.dev/p/r", [], "not a repository"),
        ("https://example.com/p/r", [], "not a repository"),
        (f"{REPOSITORY}/more", [], "not a repository"),
        (REPOSITORY, ["a b"], "--tag 'a b' is not allowed"),
        (REPOSITORY, ["sha256:1"], "--tag 'sha256:1'"),
    ],
)
def test_invalid_address_or_tag_is_refused_before_a_request(
    repository, repository_url, tags, message
):
    with pytest.raises(ConfigError, match=message):
        registry.upload(package(), repository=repository_url, tags=tags)
    assert repository.num_requests == 0


def test_schedule_accepts_a_package_address(repository, tmp_path, monkeypatch, capsys):
    address = registry.upload(package(), repository=REPOSITORY, tags=["latest"]).addresses[0]
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path / "state"))
    file = tmp_path / "nightly.yaml"
    said = {"package": address, "cron": "0 3 * * *", "parameters": {"count": 3}}
    file.write_text(json.dumps(said))

    found = read_schedule(file)
    job = plan_schedule(found, target=local_target(tmp_path)).body[REQUEST]["pipelineJob"]

    assert job["templateUri"] == address
    assert job["runtimeConfig"]["parameterValues"]["count"] == 3
    for gone, message in (
        ("tiny-one/v9", "404 tiny-one/v9 not found"),
        ("v9", "is not a repository"),
    ):
        file.write_text(json.dumps({**said, "package": f"{REPOSITORY}/{gone}"}))
        assert main(["schedule", "apply", str(tmp_path)]) == 2
        errors = capsys.readouterr().err
        assert f"{file}: package: {REPOSITORY.removesuffix('/repo')}" in errors
        assert message in errors
    assert not (tmp_path / "state").exists(), "no service was started to send anything to"


def test_the_command_uploads_a_workload_and_submit_takes_its_address(
    repository, capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRAINYARD_DIR", str(tmp_path))
    image = "us-central1-docker.pkg.dev/demo/images/trainyard:1"
    put = ["upload", "mnist", "--repository", REPOSITORY, "--tag", "latest"]
    assert main(put) == 2
    assert "Vertex AI cannot pull it" in capsys.readouterr().err
    assert repository.num_requests == 0

    assert main([*put, "--image", image]) == 0
    address = f"{REPOSITORY}/train-and-deploy-mnist/latest"
    assert address in capsys.readouterr().out.split()

    where = ["--on", "vertex", "--project", "p", "--pipeline-root", "gs://b/r"]
    assert main(["submit", address, "--dry-run", "--json", "--set", "train.epochs=1", *where]) == 0
    request = json.loads(capsys.readouterr().out)
    assert request["templateUri"] == address
    assert json.loads(request["runtimeConfig"]["parameterValues"]["train"])["epochs"] == 1
    assert image in json.dumps(request["pipelineSpec"])
